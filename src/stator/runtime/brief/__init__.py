"""Gathers what an agent is given from the store and the disk."""

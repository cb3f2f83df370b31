"""Gathers what an agent is told from the store and the disk."""

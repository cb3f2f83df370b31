"""Reads opencode's database, its exports and the output of its runs."""

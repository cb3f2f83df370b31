"""Driving: turns, calls and the agent loop of a session that this program holds the lease of."""

"""Driving: the driver of a session, its turns, calls and agent loop, and steering a session from outside."""

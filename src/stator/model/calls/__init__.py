"""Calls: the life of a tool call, and every rule about trying again, approving, spending and replaying."""

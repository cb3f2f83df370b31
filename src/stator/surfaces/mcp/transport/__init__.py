"""Transports of the MCP server: stdio, loopback HTTP, and who may connect."""

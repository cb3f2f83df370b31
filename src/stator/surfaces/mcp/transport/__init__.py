"""Carries MCP messages: stdio, loopback HTTP, and the check of who may connect."""

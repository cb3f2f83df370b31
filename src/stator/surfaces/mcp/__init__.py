"""Serves sessions to the agent itself over MCP, on stdio or loopback HTTP.

Only this package imports the `mcp` SDK, and only when the server runs: loading it takes over a second.
"""

"""The MCP server: sessions for the agent itself, over stdio or loopback HTTP.

Only this package imports the `mcp` SDK, and only when the server runs: it takes over a second to load.
"""

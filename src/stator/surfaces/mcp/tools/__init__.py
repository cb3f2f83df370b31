"""The tools that the MCP server offers."""

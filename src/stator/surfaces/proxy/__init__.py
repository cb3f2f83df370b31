"""Records the tool calls between an MCP client and its server, and passes every byte on unchanged.

Messages the proxy understands are recorded; all others are passed on as well. Only the person who starts the
proxy names the server; no message can name another one.
"""

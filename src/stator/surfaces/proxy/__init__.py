"""The recording proxy: stands between an MCP client and a server, passes on every byte, and records calls.

What is understood is recorded; what is not is passed on all the same. The server that is started or
spoken to is named by whoever starts the proxy, never by anything that comes over the wire.
"""

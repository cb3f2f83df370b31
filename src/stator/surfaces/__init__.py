"""Surfaces: where people and programs meet Stator. The command line, MCP, HTTP, the web view.

A surface translates: it parses a request, asks the runtime and renders the answer. Rules about
sessions belong in the model, not here. Only surfaces print or exit, and only surfaces and
`stator.connect` read the environment. What they show was recorded from elsewhere and is hostile:
it is escaped, never executed.
"""

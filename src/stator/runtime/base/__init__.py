"""Base: the clock, ids and arguments every use case is given, and a project's own session."""

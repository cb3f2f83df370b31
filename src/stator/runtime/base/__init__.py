"""Base: what every use case is given (clock, ids, checked arguments), pages, and a project's own session."""

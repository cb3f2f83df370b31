"""Whose line it is, over the sessions of a project."""

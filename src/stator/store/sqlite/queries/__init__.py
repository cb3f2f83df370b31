"""Queries: every question a SQLite store answers, over one consistent snapshot."""

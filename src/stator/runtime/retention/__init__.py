"""Retention: how long sessions are kept, and erasing content."""

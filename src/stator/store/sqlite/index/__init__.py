"""Indexes that are files of their own beside the store."""

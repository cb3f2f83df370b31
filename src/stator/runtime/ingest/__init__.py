"""Ingest: recording conversations that another program drives."""

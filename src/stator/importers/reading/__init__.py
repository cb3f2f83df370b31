"""Readers and parsers that several transcript formats share."""

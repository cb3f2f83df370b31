"""Reads the samples of Inspect's evaluation logs."""

"""Inspect: the samples of its evaluation logs."""

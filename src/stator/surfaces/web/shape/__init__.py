"""Shapes what was read into what templates show: plain values, bounded. Nothing here reads a store."""

"""Outlets: what a store holds, given to another program as it happens, at least once."""

"""Bundles: sessions exported to a file and imported from one."""

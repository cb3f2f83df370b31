"""Hooks: what coding agents report while they work, queued in a spool and recorded from it."""

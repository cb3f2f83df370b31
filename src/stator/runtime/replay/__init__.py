"""Replay: programs run against their record, and workflows made from a record and run."""

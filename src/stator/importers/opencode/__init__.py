"""opencode: its database, its exports and the output of its runs."""

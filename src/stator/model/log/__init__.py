"""The log: commits, the deltas they record, how a draft becomes a commit, and what is read back."""

"""What of a log is trusted, and what is not."""

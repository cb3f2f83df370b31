"""Questions that are asked of the tables, and answers from their rows."""

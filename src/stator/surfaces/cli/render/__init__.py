"""Output: answers as lines of text and as JSON."""

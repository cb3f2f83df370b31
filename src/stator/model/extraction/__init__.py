"""What a session decided, made and used, found in its commits by rules about structure."""

"""What a question names: where it looks, and the path it is about."""

"""Reading: what the formats have in common when they read foreign files."""

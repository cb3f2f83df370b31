"""Why things are as they are, and what sessions were about."""

"""Views: reading sessions without a lease and without changing anything."""

"""Views: reading sessions and searching them, without a lease and without changing anything."""

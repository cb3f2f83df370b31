"""`stator sql`: a query of a person's own, in a process of its own, over views that a store fills."""

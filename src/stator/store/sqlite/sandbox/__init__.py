"""`stator sql`: a query of a person's own, over the documented views and nothing else."""

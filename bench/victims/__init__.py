"""The same agent written for each framework, to be killed while it pays; `bench.crash` runs them."""

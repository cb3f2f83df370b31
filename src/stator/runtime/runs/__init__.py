"""Runs: programs that go on without the terminal that started them."""

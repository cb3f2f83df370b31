"""Runs: programs that outlive the terminal that started them."""

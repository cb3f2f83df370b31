"""Runs: programs that keep running without the terminal that started them: their folders and processes."""

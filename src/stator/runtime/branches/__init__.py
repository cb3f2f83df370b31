"""Branches: forks, rewinds, retries and reruns."""

"""Branches: opening a session, forks, rewinds, retries, reruns, and files restored to a position."""

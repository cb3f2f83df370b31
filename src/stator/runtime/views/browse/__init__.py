"""Reads what one page of a browser shows: a stretch of turns, a list of sessions, in a bounded number of calls."""

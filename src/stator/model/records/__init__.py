"""Records: what the state of a session can hold, kind by kind, and each of them as text."""

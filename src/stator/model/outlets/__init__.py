"""What goes to other programs as it happens: cursors over all sessions, and commits as spans."""

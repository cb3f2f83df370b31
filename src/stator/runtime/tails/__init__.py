"""Following sessions: commits as they arrive, of one session and of all."""

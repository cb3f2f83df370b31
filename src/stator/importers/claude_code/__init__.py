"""Reads Claude Code's transcripts and writes sessions back as transcripts."""

"""Rendering: answers as lines for people and as JSON for programs."""

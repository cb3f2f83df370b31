"""Reads the sessions of GitHub Copilot CLI."""

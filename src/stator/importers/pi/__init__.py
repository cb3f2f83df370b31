"""Reads pi's sessions, whose entries form a tree."""

"""pi: its sessions, whose entries form a tree."""

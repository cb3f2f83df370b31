"""Files that commands write for people and for other programs."""

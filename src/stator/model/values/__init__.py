"""The smallest parts: canonical bytes, ids, JSON text, paths, positions and words. Nothing here knows a session."""

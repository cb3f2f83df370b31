"""Importers: read other agents' transcripts and record them as sessions."""

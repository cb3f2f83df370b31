"""Importers: other agents' transcripts, read and recorded as sessions. One file per format."""

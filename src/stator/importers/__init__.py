"""Importers: other agents' transcripts, read and recorded as sessions. One file per format."""

import stator._moved  # noqa: F401  # for import paths of 0.4

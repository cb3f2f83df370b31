"""Importers: read other agents' transcripts and record them as sessions."""

import stator._moved  # noqa: F401  # for import paths of 0.4

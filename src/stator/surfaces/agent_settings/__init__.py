"""Edits the settings of other agents so that they report to Stator what they do."""

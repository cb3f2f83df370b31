"""The window: the transcript a model is sent, compaction, recall and the brief."""

"""Records what coding agents report through hooks: a queue of lines on disk, and its ingestion."""

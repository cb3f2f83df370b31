"""Claude Code: its transcripts, its tools, its forks, and writing one back."""

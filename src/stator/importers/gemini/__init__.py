"""Gemini CLI: its chats and its tools."""

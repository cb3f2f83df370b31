"""Reads Gemini CLI's chats."""

"""The model: what a session, a commit and a state are, and every rule about them.

Pure. It does no I/O, reads no clock, draws no randomness and knows no asyncio: what it needs of
those is handed in. It imports nothing of Stator but `stator.errors`.
"""

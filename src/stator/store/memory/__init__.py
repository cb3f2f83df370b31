"""The memory store: the port in plain Python, for tests, and the oracle that other stores are compared with."""

from stator.store.memory.store import MemoryStore as MemoryStore

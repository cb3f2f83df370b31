"""The runtime: the use cases. Sessions, turns, calls, recovery, forks, replay.

Synchronous; one operation is one transaction. It speaks to a store through `stator.store.port` and
names no concrete one; clock, ids and sleep are injected. It does not read the environment, print or
exit, and imports no surface, integration or importer.
"""

"""The command line: one file per command, each with a rendering for people and one in JSON.

A command holds no rule of its own and imports what it needs when it runs, so that every command
starts fast. Exit codes: 0 ok, 1 a finding, 2 usage, 3 not found, 4 busy, 5 store unusable.
"""

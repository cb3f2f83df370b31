"""How `stator log` shows turns: one line a call, one line a turn, or a graph."""

"""How `stator diff` shows what differs: between two states, two tries at a turn, two contents of a file."""

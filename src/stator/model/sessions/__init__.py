"""Sessions: their lifecycle, how long they are kept, and their detached runs."""

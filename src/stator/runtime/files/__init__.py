"""Files on disk: reading and writing them safely, keeping what they hold, and what git says of them."""

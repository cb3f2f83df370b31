"""The facade: Store, Session and their asynchronous twins, which is what users hold."""

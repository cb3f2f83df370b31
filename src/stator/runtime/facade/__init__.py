"""The facade: what users hold. Store, Session, Turn, SessionView, Contributor, Run and their asynchronous twins."""

"""The inspector: pages of a store for a browser, made on the server."""

"""Exchange: sessions as bundles, and what other agents did as items."""

"""Exchange: sessions that go from one store to another, without a file between them."""

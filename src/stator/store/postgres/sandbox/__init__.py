"""`stator sql` over a server: its rows come here, and the query stays here."""

"""One module for each page: its routes, and what its template is given."""

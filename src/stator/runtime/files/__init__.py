"""Files: what calls did to them, what they held, and putting them back."""

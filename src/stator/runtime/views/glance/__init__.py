"""What many sessions look like at once."""

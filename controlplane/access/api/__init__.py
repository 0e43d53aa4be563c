"""REST of access."""

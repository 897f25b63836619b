"""A generated history, for demonstrations and measurements."""

"""Management: the managed objects of a broker, queried, read, changed and called by name."""

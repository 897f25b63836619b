"""The managed objects of a broker at work: found, read, changed and called by their names."""

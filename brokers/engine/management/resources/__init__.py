"""The managed types at work: one resource class per type, which finds, reads, changes and calls its objects."""

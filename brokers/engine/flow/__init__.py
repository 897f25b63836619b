"""Producer flow control: the state table, credit, pacing, overflow policies and what is used of shared limits."""

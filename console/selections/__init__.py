"""Selections of queues that somebody has saved under a name."""

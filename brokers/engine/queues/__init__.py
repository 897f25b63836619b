"""Queues: what is in them, in which order, and who gets it."""

"""Queues: their messages, the order of the messages, storage and dispatch."""

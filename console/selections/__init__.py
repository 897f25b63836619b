"""Saved selections of queues."""

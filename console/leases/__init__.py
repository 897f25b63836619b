"""Leases: one process at a time does a job, and another takes over from one that has died."""

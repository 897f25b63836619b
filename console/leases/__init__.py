"""Leases: one process at a time does a job, and another one takes over if it dies."""

"""Bulk edits: one change of policy fields for many queues, kept as a job with a row for each queue."""

"""Bulk edits: one change of policy fields for many queues, stored as a job with a row for each queue."""

"""Lengths of time, in ms, that the pipeline and those who read its tables share."""

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000

#: How long a sample says what a queue is like. Above the time between two samples of all queues.
HOLDS_MS = 15 * MINUTE

"""Durations in ms that the pipeline and the queries share."""

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000

#: How long a sample applies to its queue, at most. Longer than the time between two samples of a queue.
SAMPLE_VALIDITY_MS = 15 * MINUTE

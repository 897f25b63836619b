"""Metrics of brokers and queues for Prometheus, from the snapshots of links; with a dashboard and alert rules."""

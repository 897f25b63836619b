"""Checks of HTTP and WebSocket input against the limits of `brokers/input_limits.py`, before it is parsed."""

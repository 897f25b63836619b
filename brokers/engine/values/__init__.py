"""Frozen facts and settings of the engine: messages, limits, policies, stops, names and the texts of events."""

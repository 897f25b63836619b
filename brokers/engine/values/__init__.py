"""Immutable values of the engine: messages, limits, policies, stops, names and the texts of events."""

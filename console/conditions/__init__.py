"""Conditions that are raised by themselves: what looks wrong at a broker now, and what to do about it."""

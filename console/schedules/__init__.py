"""Schedules: stop, start or a policy at a time of day, once or again and again, and put back at the end."""

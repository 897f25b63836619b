"""Schedules: stop or start producers or set policy fields at a time of day, once or repeatedly, and revert at the
end."""

"""Rollups, episodes and blocks of one broker, computed while it is recorded: the newest rows of the tables. Pure."""

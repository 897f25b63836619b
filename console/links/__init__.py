"""Following one broker: connected, kept up to date, reconnected. `console/brokers.py` has the links of a process."""

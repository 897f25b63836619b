"""Flow history: what brokers told, kept as files, turned into episodes and rollups. `landing.py` is where it begins."""

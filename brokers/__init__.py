"""Headgate's broker side: the engine, its wire, and the interface a console drives. Knows nothing of Django."""

"""Tests of the adapters to other brokers: the core with a broker in memory, recorded answers, real brokers."""

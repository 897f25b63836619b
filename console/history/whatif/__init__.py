"""Simulation of recorded traffic with other limits, and recommendations."""

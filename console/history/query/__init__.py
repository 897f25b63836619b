"""Queries of the web side over the history's tables."""

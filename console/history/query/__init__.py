"""Queries of the pages and the API over the history's tables."""

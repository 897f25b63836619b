"""Figures as plain dicts for Plotly, without data, which the pages' scripts add from the API. Pure."""

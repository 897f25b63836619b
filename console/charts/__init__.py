"""Figures as plain dicts for Plotly, without data: pages' scripts put in what the API answers. Pure."""

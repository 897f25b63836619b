"""Alerts: rules that send notifications about lasting conditions and about events, by webhook and e-mail."""

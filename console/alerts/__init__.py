"""Alerts: rules that tell people, by webhook and e-mail, of conditions that last and of events."""

"""Who did what, when, from where, why, and what it changed. Rows are added and never changed."""

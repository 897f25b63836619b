"""Recording: one process follows each broker into the landing folder."""

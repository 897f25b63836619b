"""The pipeline from the landing folder to the tables: runs, steps, maintenance jobs, status."""

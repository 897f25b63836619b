"""The pipeline from the landing folder to the tables: its runs, its steps, its maintenance jobs, its status."""

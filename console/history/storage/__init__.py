"""Where the history lies: landing folder, tables, file systems, and the rows that all parts of it share."""

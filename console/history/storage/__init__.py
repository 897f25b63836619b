"""Storage of the history: landing folder, tables, file systems, and the rows that all parts share."""

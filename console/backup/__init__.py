"""A backup of a data folder as one file, made while everything runs, and its restoration into an empty folder.

`contents.py` says what of the folder belongs to it, `snapshot.py` copies databases that are in use, `taking.py` puts
the parts together in the order in which they fit, `archive.py` is the file. The two commands are thin.
"""

"""The message stores of earlier releases, SQLite files: read, repaired, and converted into journals at the first start.

Nothing here writes messages into such a file, except the repair of a damaged one (`salvage.py`). `tables.py` has their
schema, `runs.py` the format of messages that are stored together, `reader.py` reads them, `verification.py` checks
them, `survey.py` lists what there is, `conversion.py` makes journals of them, and `comparison.py` compares both.
"""

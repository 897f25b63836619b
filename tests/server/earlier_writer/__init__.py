"""The writer of message stores of the release before, in SQLite: it makes files for tests of what reads such files."""

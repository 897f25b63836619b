"""`headgate`, the command line of the console: a client of `/api/v1/` with the permissions of a token.

It stands alone: nothing of the project but this package is imported, so that it can be distributed separately.
"""

"""`headgate`, the command line of the console: a client of `/api/v1/` with the permissions of a token.

It imports nothing else of the project, so that it can be distributed separately.
"""

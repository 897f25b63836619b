"""`headgate`, the command line of the console: it asks `/api/v1/` as a person's token may, and knows nothing else.

It stands alone: nothing of the project but this package is imported, so that it can be handed to people by itself.
"""

"""`headgate`, the command line, against a running console."""

"""How Headgate is started, installed or in its repository: one entry for all of its processes and its command line."""

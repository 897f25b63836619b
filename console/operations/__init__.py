"""The only writers to brokers: each checks the permission, calls the broker and writes its audit row."""

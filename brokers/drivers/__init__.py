"""The admin interface over the wire, one module per kind of broker."""

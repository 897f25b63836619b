"""Implementations of the admin interface over the network, one module per kind of broker."""

"""Permissions: which rights a role gives, and where. Pure; who has which role is `console/access/`."""

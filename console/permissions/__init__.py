"""Permissions of roles. Pure; `console/access/` has the assignments of roles to users."""

"""Users, roles and tokens: assignments of roles, API tokens, and single sign-on. `console/permissions` decides."""

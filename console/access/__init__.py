"""Who may see and do what: roles, grants of them, and tokens for programs. `rights.py` alone decides."""

"""Links to brokers: each stays connected to one broker and maintains a snapshot of its state.

`registry.py` has the links of a process; `visible.py` returns them restricted to a user's permissions.
"""

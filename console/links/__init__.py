"""Links: each follows one broker, is connected, kept up to date and reconnected.

`registry.py` has the links of a process; `visible.py` gives out what a user may see of them.
"""

"""The audit trail: user, action, time, address, reason and change. Entries are added and never changed."""

"""The fleet: all brokers that a user sees, with their queues, conditions and events together, from links' snapshots."""

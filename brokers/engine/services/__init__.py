"""What a broker does across its queues: routing, subscriptions, transactions, policies, stops, limits, accounts."""

"""Services of the broker across queues: routing, subscriptions, transactions, policies, stops, limits, accounts."""

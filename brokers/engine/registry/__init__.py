"""What a broker has: virtual hosts with their queues, exchanges and subscriptions; connections and their links."""

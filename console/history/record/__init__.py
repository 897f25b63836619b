"""Recording of brokers into the landing folder."""

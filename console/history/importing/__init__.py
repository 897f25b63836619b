"""Import of broker logs into the landing folder."""

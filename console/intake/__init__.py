"""What comes in over HTTP and WebSockets is measured before anything is made of it: `brokers/input_limits.py`."""

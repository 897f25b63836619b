"""How each user wants the pages: time zone, clock, and the tables of queues."""

"""Demo producers and consumers: real AMQP clients that let a newcomer see queues fill, block and recover.

`clients.py` is what a producer and a consumer are, `scenes.py` is who they are and what they play, `main.py` is the
command. None of it knows how the broker works: only AMQP, and the admin interface to set the queues' capacities once.
"""

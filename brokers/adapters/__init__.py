"""Other brokers, driven as Headgate's own is: RabbitMQ, Artemis, ActiveMQ Classic and Broker-J.

A module for each kind (an `Adapter`, see `adapter.py`) reads that broker and changes it. The core is the same for all:
`poller.py` reads it at two speeds, `inventory.py` has the managed objects that were found, `differences.py` turns
changes of them into events, `records.py` says how these are numbered and stored, and `stops.py` has operators' stops,
with what a start has to restore. `adapted_broker.py` puts these together behind the interface of `brokers/admin.py`.
"""

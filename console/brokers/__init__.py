"""Brokers of other kinds that administrators add to the console: their addresses and credentials, and which are
configured in all.

`headgate adapters` polls and serves them (`hosting.py`); links, recorder and pages get all brokers, also Headgate's
own, from `configured.py`.
"""

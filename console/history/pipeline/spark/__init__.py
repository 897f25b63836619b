"""Spark on this machine or a cluster: the session, its Java, its scratch folder."""

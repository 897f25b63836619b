"""Flow history: recorded events and samples of brokers as files, and the episodes and rollups derived from them.

`record/`, `importing/` and `generate/` write landing files; `pipeline/` ingests them into tables; `query/` and
`whatif/` read the tables. These six meet only in `storage/`; the contract between writers and pipeline is in
`storage/landing.py`. Django and Celery require `models.py`, `tasks.py` and `apps.py` here.
"""

"""Flow history: recorded events and samples of brokers as files, and the episodes and rollups that follow from them.

`record/`, `importing/` and `generate/` write into the landing folder; `pipeline/` turns it into tables; `query/` and
`whatif/` read those. These six know each other only by what lies in `storage/`; the contract between them begins in
`storage/landing.py`. Here are what Django and Celery look for at the top of an app: `models.py`, `tasks.py`, `apps.py`.
"""

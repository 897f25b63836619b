"""The documentation that the console serves: the README files as pages, searchable, and terms in two sentences each.

`documents.py` says which files there are, `rendering.py` makes HTML of Markdown, `search.py` finds sections, `terms.py`
reads the terms.
"""

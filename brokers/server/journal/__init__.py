"""The store of messages: an append-only journal.

A journal is a folder of segments: files of a fixed size, zero-filled once and used again (`segment_file.py`). A group
is appended in one write that is synced, with a checksum (`groups.py`): all of it is recovered or nothing. What is
stored where is known in memory (`message_index.py`), and read from the groups at a start (`recovery.py`), without the
bodies. The space of removed messages is free when a segment has none left, or when the last ones have been copied
(`compaction.py`).

`journal_store.py` is what the broker's loop uses; `journal_writer.py` decides what is written when the disk is full;
`segments.py` has the segments that are used, free, or reserved; `reading.py` reads, also for commands and backups;
`open_files.py` has the files that are open for it. `pinning.py` copies the journal of a running broker, whose segments
are not freed meanwhile (`reading_lock.py`).
"""

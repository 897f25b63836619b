"""Message jobs: move, copy, retry or delete all messages that a filter finds, batch by batch, as a resumable job."""

"""Live updates of pages over WebSockets: numbered snapshots, and every event."""

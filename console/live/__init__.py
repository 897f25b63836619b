"""What changes at a broker, pushed to pages over WebSockets: numbered snapshots, and every event."""

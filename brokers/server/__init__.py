"""The broker process: sockets, timers, the management node, the configuration store and the event journal."""

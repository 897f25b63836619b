"""The engine: pure values and rules. No socket, loop, clock or file; time is a parameter, effects are returned."""

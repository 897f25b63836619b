"""Whether the console is able to serve, and the state of each of its parts."""

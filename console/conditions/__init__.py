"""Active conditions of a broker: problems that the console detects in samples and events, each with advice."""

"""The web console: pages, API and command line to monitor and control brokers, through their admin interface only."""

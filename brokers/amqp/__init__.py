"""Apache Qpid Proton on one side, the engine on the other: connections, links, credit, dispositions."""

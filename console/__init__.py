"""The web console: what people and programs use to watch and steer the brokers. Knows brokers only by their admin
interface."""

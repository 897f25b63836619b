"""What an operator needs during an incident: why producers are blocked, and what happened when."""

"""What the operator sees: one module per page, each parse -> call -> render.

A page carries its frame and what the server alone knows; what changes at the broker comes through the socket. Pages
never change a broker: their scripts call `/api/v1/`, which has the permissions and writes the audit row.
"""

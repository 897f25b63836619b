"""The versioned HTTP interface under /api/v1/, described by OpenAPI at /api/schema/."""

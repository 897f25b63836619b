"""What-if: recorded traffic against other limits, and recommendations."""

"""What the service measures of itself, and how it is read."""

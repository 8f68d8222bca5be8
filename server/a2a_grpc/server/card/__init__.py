"""The agent card: read from a file, completed with where the agent is reached, checked, published."""

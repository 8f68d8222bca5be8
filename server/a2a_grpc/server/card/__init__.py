"""The agent card: completed with where the agent is reached, checked, published."""

"""Running turns: from the claim of a task to the state it ends in, whatever the agent does."""

"""The registry of agents: who is registered, what is found, who answers. And how an agent keeps itself registered."""

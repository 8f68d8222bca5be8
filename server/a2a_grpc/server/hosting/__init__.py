"""The agents that one service hosts: by tenant, each with its card, its gate and its limits."""

"""The pure domain of a task: its states, its events, its ids and its pages. No input and no output."""

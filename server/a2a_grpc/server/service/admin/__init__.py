"""What an operator may ask of a service: one file for each kind of thing."""

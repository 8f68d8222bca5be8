"""The commands that call agents, after the a2a-cli specification 0.2.

`a2a-grpc card`, `send`, `task`, `chat`, `discover`, `config show` and `completion`. docs/COMMANDS.md tells how they are
used, and which of the specification's requirements are met where.
"""

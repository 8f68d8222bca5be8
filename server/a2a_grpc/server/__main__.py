"""`python -m a2a_grpc.server serve|gateway|registry|config`: the server's part of the `a2a-grpc` command."""

import sys

from a2a_grpc.server import main

COMMANDS = {"serve": main.serve, "gateway": main.gateway, "registry": main.registry, "config": main.config}

if __name__ == "__main__":
    name, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if name not in COMMANDS:
        sys.exit(f"usage: python -m a2a_grpc.server {'|'.join(COMMANDS)} [arguments]")
    sys.exit(COMMANDS[name](arguments))

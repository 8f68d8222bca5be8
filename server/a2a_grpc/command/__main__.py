"""`python -m a2a_grpc.command`, the same as `a2a-grpc`."""

import sys

from a2a_grpc.command import main

sys.exit(main())

"""The stubs of `lf.a2a.v1`, generated from `a2a.proto`.

This file is `proto/pb_init.py`; `make gen` puts it beside the stubs, so that each import of them passes here first.
"""

import sys

try:
    from a2a_grpc.pb import a2a_pb2 as a2a_pb2
except TypeError as error:
    # One process can hold one definition of a protobuf name. protobuf accepts a second one only if it is equal byte for
    # byte, and otherwise says "duplicate file name", which tells nobody what to do.
    stubs = (name for name in sys.modules if name.rpartition(".")[2] == "a2a_pb2")
    others = sorted(name for name in stubs if not name.startswith("a2a_grpc."))
    raise ImportError(
        "a2a-grpc cannot load its a2a.proto: this process has already loaded a different definition of lf.a2a.v1"
        f" ({', '.join(others) or 'by a module that cannot be told'}). The one of a2a-sdk 1.3 is equal to ours and may"
        " be loaded beside it. Install that version, or run the two packages in separate processes."
    ) from error

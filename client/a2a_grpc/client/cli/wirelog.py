"""What `--debug` tells of calls (a2a-cli specification 0.2, 7.2 and 12.1)."""

from google.protobuf.message import Message

from a2a_grpc.client.cli.invocation import Invocation
from a2a_grpc.client.transports.observed import ObservedCall, Observer
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError
from a2a_grpc.wire.headers import A2A_VERSION


class WireLog(Observer):
    """Writes every message to stderr, as ProtoJSON on every binding. Of credentials there is nothing but names."""

    def __init__(self, run: Invocation) -> None:
        self._run = run

    def called(self, call: ObservedCall) -> None:
        """See Observer."""
        parameters = {name: "" for name, _ in self._run.args.svc_param} | dict.fromkeys(call.shown, "")
        named = " ".join(f"{name}=[hidden]" for name in sorted(parameters))
        own = " ".join(f"{name}={value}" for name, value in call.parameters.items())
        version = f"{A2A_VERSION}={self._run.args.a2a_version}"
        self._say(call, ">", " ".join(word for word in (version, own, named, _json(call.request)) if word))

    def answered(self, call: ObservedCall, answer: Message) -> None:
        """See Observer."""
        self._say(call, "<", f"{call.seconds * 1000:.0f} ms {_json(answer)}")

    def failed(self, call: ObservedCall, error: A2AError) -> None:
        """See Observer."""
        self._say(call, "<", f"{call.seconds * 1000:.0f} ms {error.kind.name}: {error.message}")

    def _say(self, call: ObservedCall, way: str, what: str) -> None:
        self._run.debug(f"{way} {call.method} {call.interface.protocol_binding} {call.interface.url} {what}")


def _json(message: Message) -> str:
    return protojson.dumps(message).decode()

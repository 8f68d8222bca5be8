"""Requests, and stubs that wait for their answers."""

from typing import Any

import grpc

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc

VERSION = (("a2a-version", "1.0"),)


def message(text: str, *, at_once: bool = False) -> a2a_pb2.SendMessageRequest:
    """A request with one text part; with `at_once` its answer does not wait for the turn."""
    request = a2a_pb2.SendMessageRequest(
        message=a2a_pb2.Message(message_id="bench", role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=text)])
    )
    if at_once:
        request.configuration.return_immediately = True
    return request


def as_json(text: str) -> dict[str, object]:
    """The same for HTTP+JSON."""
    return {"message": {"messageId": "bench", "role": "ROLE_USER", "parts": [{"text": text}]}}


def blocking_stub(channel: grpc.Channel) -> Any:
    """A stub that waits; the generated one is typed for grpc.aio only."""
    return a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[arg-type]

"""What a service answers, as text that can be compared with what another one answers to the same."""

import itertools
import json
import re
from collections.abc import Mapping

import httpx
from google.protobuf.message import Message

from tests.conformance.callers import VERSION, HttpCaller, JsonRpcCaller

_ID = re.compile(r"\b[0-9a-f]{32}(?:-[0-9a-f]+)?\b")
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT[\d:.]+Z")
_JSON = re.compile(r"^(?:data: )?(\{.*\})$", re.MULTILINE)
"""A whole body, or the data of an event."""
_OF_THE_CONNECTION = {"date", "content-length", "transfer-encoding", "connection", "keep-alive"}


class Transcript:
    """Sends requests to one service and notes the answers, with everything in them that no two services share replaced.

    Ids are numbered in the order of their appearance, so that in two equal transcripts the same things are the same.
    """

    def __init__(self, caller: HttpCaller | JsonRpcCaller) -> None:
        """`caller` sends the well-formed requests; its JSON-RPC ids begin anew."""
        self.answers: list[tuple[str, int, dict[str, str], str]] = []
        """What was asked, the status, the headers, the body."""
        self._caller = caller
        if isinstance(caller, JsonRpcCaller):
            caller._ids = itertools.count(1)
        self._names: dict[str, str] = {}

    async def call(self, method: str, request: Message, parameters: Mapping[str, str] = VERSION) -> httpx.Response:
        """Call an operation; streams are read to their end."""
        built = self._caller._request(method, request, {**self._caller.parameters, **parameters})
        return await self._note(method, await self._caller.http.send(built))

    async def send(
        self, verb: str, path: str, body: str | bytes = "", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send a request as it stands here."""
        given = {"content-type": "application/json", **self._caller.parameters, **(headers or {})}
        response = await self._caller.http.request(verb, path, content=body, headers=given)
        return await self._note(f"{verb} {path} {body[:200]!r} {headers}", response)

    async def _note(self, asked: str, response: httpx.Response) -> httpx.Response:
        headers = {
            name: self._named(value) for name, value in response.headers.items() if name not in _OF_THE_CONNECTION
        }
        if asked == "GetExtendedAgentCard":
            # A gateway does not know in which headers its service looks for credentials: it names the usual ones.
            headers.pop("vary", None)
        body = _JSON.sub(_canonical, response.text)
        self.answers.append((self._named(asked), response.status_code, headers, self._named(body)))
        return response

    def _named(self, text: str) -> str:
        named = _ID.sub(lambda found: self._names.setdefault(found[0], f"<{len(self._names) + 1}>"), text)
        return _TIME.sub("<time>", named)


def _canonical(found: re.Match[str]) -> str:
    """Maps have no order."""
    return found[0].replace(found[1], json.dumps(json.loads(found[1]), sort_keys=True))

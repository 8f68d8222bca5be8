"""Where the store is, as A2A_REDIS_URL says it: one server, a master that sentinels know, or a cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self
from urllib.parse import parse_qsl, quote, urlencode

_HIGHEST_PORT = 65535
_SENTINEL_PORT = 26379
_SERVER_PORT = 6379
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\]@,]+))(?::(?P<port>[0-9]{1,5}))?")
_FOR_SENTINELS = ("sentinel_username", "sentinel_password")


class Parts(NamedTuple):
    """The parts of a URL whose host may be a list, which `urllib.parse` refuses where it holds an IPv6 address."""

    scheme: str
    credentials: str
    """As they stand before the last @, or ""."""
    hosts: str
    path: str
    query: str


def split_url(url: str) -> Parts:
    """Take `url` apart, whatever it is: parts that it has not are empty."""
    before, _, after = url.partition("://")
    rest, _, _ = after.partition("#")
    rest, _, query = rest.partition("?")
    place, slash, path = rest.partition("/")
    credentials, _, hosts = place.rpartition("@")
    return Parts(before.lower(), credentials, hosts, slash + path, query)


class Endpoint(NamedTuple):
    """The address of one server of the store."""

    host: str
    """A name, an IPv4 address, or an IPv6 address without brackets."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Kind(Enum):
    """The ways to reach a store."""

    SERVER = "one server"
    SENTINEL = "a master that sentinels know"
    CLUSTER = "a cluster"


@dataclass(frozen=True)
class Location:
    """A2A_REDIS_URL, taken apart. Nothing of it is ever printed: it may hold passwords."""

    kind: Kind
    url: str
    """As given."""
    endpoints: tuple[Endpoint, ...] = ()
    """The sentinels, or the nodes that are asked first for all the others. Empty for one server."""
    master: str = ""
    """What the sentinels call the master."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take `url` apart. Raises: ValueError with the end of a sentence that says what is wrong."""
        parts = split_url(url)
        tls, _, suffix = parts.scheme.partition("+")
        if suffix not in {"sentinel", "cluster"} or tls not in {"redis", "rediss"}:
            return cls(Kind.SERVER, url)
        if suffix == "cluster":
            endpoints = _endpoints(url, _SERVER_PORT, "redis+cluster://node1:6379,node2:6379")
            if parts.path.strip("/0") or dict(parse_qsl(parts.query)).get("db", "0") != "0":
                raise ValueError("a cluster has no database numbers: nothing may follow the last port")
            return cls(Kind.CLUSTER, url, endpoints)
        endpoints = _endpoints(url, _SENTINEL_PORT, "redis+sentinel://sentinel1:26379,sentinel2:26379/mymaster")
        path = re.fullmatch(r"/(?P<master>[A-Za-z0-9._-]+)(?:/[0-9]*)?", parts.path)
        if path is None:
            raise ValueError(
                "after the last sentinel must follow the name that they give the master, and then a number of a "
                "database may, for example redis+sentinel://sentinel1:26379,sentinel2:26379/mymaster/0"
            )
        return cls(Kind.SENTINEL, url, endpoints, path["master"])

    def server_url(self, endpoint: Endpoint) -> str:
        """The URL of one server that holds data, with everything that A2A_REDIS_URL says about such."""
        parts = split_url(self.url)
        user = parts.credentials
        number = parts.path.removeprefix(f"/{self.master}") if self.kind is Kind.SENTINEL else ""
        query = {name: value for name, value in self._options().items() if name not in _FOR_SENTINELS}
        return _url(self._scheme(), f"{user}@" if user else "", endpoint, number.rstrip("/"), query)

    def sentinel_url(self, endpoint: Endpoint) -> str:
        """The URL of one sentinel: its own credentials, TLS as for the servers."""
        options = self._options()
        user, password = (quote(options.get(name, ""), safe="") for name in _FOR_SENTINELS)
        query = {name: value for name, value in options.items() if name.startswith("ssl_")}
        return _url(self._scheme(), f"{user}:{password}@" if user or password else "", endpoint, "", query)

    def _scheme(self) -> str:
        return split_url(self.url).scheme.partition("+")[0]

    def _options(self) -> dict[str, str]:
        return dict(parse_qsl(split_url(self.url).query, keep_blank_values=True))


def _url(scheme: str, user: str, endpoint: Endpoint, path: str, query: Mapping[str, str]) -> str:
    return f"{scheme}://{user}{endpoint}{path}{'?' if query else ''}{urlencode(query)}"


def _endpoints(url: str, port: int, example: str) -> tuple[Endpoint, ...]:
    found = []
    for number, entry in enumerate(split_url(url).hosts.split(","), start=1):
        match = _HOST.fullmatch(entry)
        if match is None or int(match["port"] or port) > _HIGHEST_PORT:
            raise ValueError(f"address {number} in it cannot be read; write HOST:PORT,HOST:PORT as in {example}")
        found.append(Endpoint(match["v6"] or match["host"], int(match["port"] or port)))
    return tuple(found)

"""Destinations that no webhook may have, by the tricks that make a service call where it should not (13.2).

`python -m tests.push.hostile` tries them all and prints how many were refused.
"""

import asyncio
import socket
import sys
from typing import Any
from unittest import mock

from a2a_grpc.server.push.destinations import Destinations, RefusedDestinationError
from a2a_grpc.server.push.network import CheckedNetwork

PRIVATE = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "224.0.1.1",
    "239.255.255.255", "240.0.0.1", "168.63.129.16", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1", "100::1",
    "2001:db8::1", "3fff::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
    "::8.8.8.8", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1",
    "2001:0:7f00:1::", "2001::1", "100.100.100.200", "192.0.0.192", "192.0.0.9", "192.88.99.1", "10.96.0.1",
    "::ffff:0:127.0.0.1", "2001:10::1",
    "2001:2::1", "64:ff9b::10.0.0.1", "64:ff9b::100.64.0.1", "2002:a9fe:a9fe::1", "5f00::1", "4000::1",
]  # fmt: skip
"""Addresses that are not of the public internet, or carry one inside that is not."""

HOSTILE = [
    # Addresses that are not public, plainly written.
    *(f"https://{address}/" for address in PRIVATE if ":" not in address),
    *(f"https://[{address}]/" for address in PRIVATE if ":" in address),
    "https://localhost/", "https://LOCALHOST/", "https://sub.localhost:8443/",
    # The same in other spellings, and addresses that only some readers take for one.
    "https://2130706433/", "https://0x7f000001/", "https://017700000001/", "https://0177.0.0.1/", "https://0x7f.0.0.1/",
    "https://127.1/", "https://127.0.1/", "https://0/", "https://0x0/", "https://127.0.0.1./", "https://127.0.0.01/",
    "https://1.2.3.4.5/", "https://256.1.1.1/", "https://1.2.3/", "https://8.8.8.0x8/", "https://example.0x7f/",
    "https://[::ffff:8.8.8.8]/", "https://[::ffff:7f00:1]/", "https://[2606:4700::1%25eth0]/", "https://[8.8.8.8]/",
    "https://[::1/", "https://::1/", "https://[]/", "https://[2606:4700::1111]x/", "https://[[::1]]/",
    # Digits and dots that are none in ASCII.
    "https://①②⑦.⓪.⓪.①/", "https://127。0。0。1/", "https://\uff11\uff12\uff17.0.0.1/", "https://ⓛocalhost/",
    "https://ex\u00admple.com/",
    # Who is the host?
    "https://example.com@127.0.0.1/", "https://127.0.0.1@example.com/", "https://user:pass@example.com/",
    "https://@example.com/",
    "https://example.com\\@127.0.0.1/", "https://example.com\\.evil.com/", "https:\\\\example.com/",
    "https://example.com#@127.0.0.1/",
    "https://example.com/#fragment", "https://example.com#", "https:///example.com/", "https:/example.com/",
    "https:example.com",
    "https://", "https:///", "//example.com/", "example.com", "/hook", "", " ", "https://example.com:443:80/",
    "https://example.com:0/", "https://example.com:65536/", "https://example.com:-1/", "https://example.com:+80/",
    "https://example.com:0443/", "https://example.com:00/", "https://example.com:99999999999999999999/",
    "https://example.com:8o/", "https://example.com: 80/", "https://exam ple.com/", "https://example%2ecom/",
    "https://127%2e0%2e0%2e1/", "https://%6cocalhost/", "https://example.com%00.evil.com/", "https://example..com/",
    "https://.example.com/", "https://example.com./", "https://-example.com/", "https://example-.com/", "https://*/",
    f"https://{'a' * 64}.com/", f"https://{'a.' * 130}com/", "https://" + "a" * 3000,
    # Other schemes, and what breaks lines.
    "http://example.com/", "HTTP://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
    "javascript:alert(1)", "data:,x", "unix:///run/redis.sock", "redis://example.com/", "httpss://example.com/",
    "://example.com",
    "https://example.com/\r\nX-Evil: 1", "https://example.com/\n", "https://example.com\t/", "\thttps://example.com/",
    " https://example.com/", "https://example.com/ ", "https://example.com/ü", "https://example.com/a b",
    "https://example.com/\x00",
    "https://example.com/\x7f", "https://exa\rmple.com/",
    # Once more, as others have spelled them.
    "https://3232235777/", "https://0xA9FEA9FE/", "https://169.254.43518/", "https://169.16689662/",
    "https://0300.0250.1.1/",
    "https://0x7f.1/", "https://127.000.000.001/", "https://00000000177.1/", "https://0x7F000001.0/",
    "https://4294967296/",
    "https://1.1.1.1.0x/", "https://169.254.169.254:443:80/", "https://[0:0:0:0:0:ffff:127.0.0.1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[::ffff:0:0:127.0.0.1]/", "https://[fe80::1%25lo]/", "https://[::1%lo]/", "https://[::1]evil.com/",
    "https://[::1].example.com/",
    "https://[1::2::3]/", "https://[v1.a]/", "https://[::0001]/", "https://[0:0:0:0:0:0:0:1]/", "https://[::1]:0/",
    "https://example.com:\u0664\u0664\u0663/", "https://\U0001d7cf\U0001d7d0\U0001d7d5.0.0.1/",
    "https://example\u3002com/",
    "https://example.com\uff0f@127.0.0.1/", "https:\uff0f\uff0fexample.com/", "https://exa\u200bmple.com/",
    "https://127.0.0.1%2f@example.com/",
    "https://127.0.0.1%23@example.com/", "https://example.com%40127.0.0.1/", "https://example.com%5c@127.0.0.1/",
    "https://a:b@c:d@example.com/",
    "https://127.0.0.1\\@example.com/", "https:/\\example.com/", "https:\\/example.com/", "https:////example.com/",
    "https://?@127.0.0.1/",
    "https://#@example.com/", "ht\ntps://example.com/", "https://exam\tple.com/", "https://example.com\u2028/",
    "https://example.com\x0b/",
    "https://\x00example.com/", "https://localhost\x00.example.com/", "https://LocalHost:443/",
    "https://a.b.localhost/", "https://localhost./",
    "https://example.com,127.0.0.1/", "https://example.com;127.0.0.1/", "https://example.com 127.0.0.1/",
    "https://(127.0.0.1)/", "https://{host}/",
    "https://$(hostname)/", "https://`id`/", "https://'127.0.0.1'/", "https://127.0.0.1'@example.com/",
    "https://~/", "https://!/", "https://a=b/",
    "dict://example.com:11211/", "ldap://example.com/", "tftp://example.com/", "netdoc:///etc/passwd",
    "jar:https://example.com!/", "ws://example.com/",
    "wss://example.com/", "grpc://example.com/", "blob:https://example.com/", "view-source:https://example.com/",
    "url:https://example.com/",
    "https+unix://example.com/", "https:8.8.8.8", "HTTPS:8.8.8.8/", "https;//example.com/", "https//example.com/",
]  # fmt: skip
"""URLs that are to be refused before anything is looked up or connected to."""

PLAIN = ["http:" + url.removeprefix("https:") for url in HOSTILE if url.startswith("https:")]
"""The same for services that allow http."""


def answers(*found: str) -> Any:
    """A getaddrinfo that finds these addresses, whatever the name."""

    def look_up(_: str, port: int, **__: Any) -> list[Any]:
        return [
            (socket.AF_INET6 if ":" in text else socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port))
            for text in found
        ]

    return look_up


def refused(urls: list[str], destinations: Destinations) -> int:
    """How many of `urls` are refused as they are read."""
    count = 0
    for url in urls:
        try:
            destinations.read(url)
        except RefusedDestinationError:
            count += 1
    return count


async def refused_when_looked_up(*beside: str) -> int:
    """How many of `PRIVATE` are refused as the address of an innocent name, `beside` others."""
    network = CheckedNetwork(Destinations(), connections=1)
    count = 0
    for address in PRIVATE:
        with mock.patch.object(socket, "getaddrinfo", answers(*beside, address)):
            try:
                await network.connect_tcp("example.com", 443, timeout=1)
            except RefusedDestinationError:
                count += 1
    network.close()
    return count


def main() -> int:
    """Print the counts as a table in Markdown; 0 where everything is refused."""
    urls = (HOSTILE, Destinations()), (PLAIN, Destinations(http=True))
    rows = [
        ("URLs", len(HOSTILE), refused(*urls[0])),
        ("the same with http, where that is allowed", len(PLAIN), refused(*urls[1])),
        ("addresses that an innocent name leads to", len(PRIVATE), asyncio.run(refused_when_looked_up())),
        ("the same beside a public one", len(PRIVATE), asyncio.run(refused_when_looked_up("8.8.8.8"))),
    ]
    rows.append(("all", sum(tried for _, tried, _ in rows), sum(count for *_, count in rows)))
    sys.stdout.write("| hostile destinations | tried | refused |\n|---|---|---|\n")
    for name, tried, count in rows:
        sys.stdout.write(f"| {name} | {tried} | {count} |\n")
    return 0 if rows[-1][1] == rows[-1][2] else 1


if __name__ == "__main__":
    sys.exit(main())

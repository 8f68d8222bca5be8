"""Service parameters (section 3.2.6)."""

import pytest

from a2a_grpc.wire import headers


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.0", (1, 0)),
        ("1.0.7", (1, 0)),  # section 3.6: patch numbers do not count
        (" 1.0 ", (1, 0)),  # RFC 9110, 5.5: space around a field value is no part of it
        ("0.3", (0, 3)),
        ("99.0", (99, 0)),
        ("", None),
        ("1", None),
        ("v1.0", None),
        ("1.0-beta", None),
        ("1.0.0.0", None),
        ("01.0", None),
        ("1.", None),
        ("-1.0", None),
        ("1.0,1.0", None),
        ("\u0661.\u0660", None),  # digits of another script
        ("1" * 5000 + ".0", None),
        ("latest", None),
    ],
)
def test_version(text: str, version: tuple[int, int] | None) -> None:
    assert headers.parse_version(text) == version


def test_our_own_version_is_understood() -> None:
    assert headers.parse_version(headers.SUPPORTED_VERSION) == (1, 0)


@pytest.mark.parametrize(
    ("text", "uris"),
    [
        ("", ()),
        (" , ,", ()),
        ("https://a.example/v1", ("https://a.example/v1",)),
        # The example of section 3.2.6, and with spaces.
        (
            "https://example.com/e/geo/v1,https://standards.org/e/cite/v1",
            ("https://example.com/e/geo/v1", "https://standards.org/e/cite/v1"),
        ),
        ("b , a\t,b,A", ("b", "a", "A")),  # values are case-sensitive (section 3.2.6)
    ],
)
def test_extensions(text: str, uris: tuple[str, ...]) -> None:
    assert headers.parse_extensions(text) == uris
    assert headers.parse_extensions(headers.format_extensions(uris)) == uris


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("17", 17),
        (" 017 ", 17),
        ("9" * 18, 10**18 - 1),
        *((bad, None) for bad in ("", "-1", "+1", "1.0", "1e3", "1_000", "0x1", "1,2", "٣", "²", "9" * 19)),
    ],
)
def test_event_ids(text: str, number: int | None) -> None:
    assert headers.parse_event_id(text) == number


def test_names_are_lower_case_as_grpc_metadata_must_be() -> None:
    names = (headers.A2A_VERSION, headers.A2A_EXTENSIONS, headers.LAST_EVENT_ID, headers.REQUEST_ID)
    assert names == ("a2a-version", "a2a-extensions", "last-event-id", "x-request-id")

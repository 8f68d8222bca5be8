"""The metrics of several processes as one exposition in the text format of Prometheus."""

import re
from collections.abc import Mapping

_SAMPLE = re.compile(rb"([A-Za-z_:][A-Za-z0-9_:]*)(\{)?")


def merged(expositions: Mapping[str, bytes], label: str) -> bytes:
    """All samples of all `expositions`, each under the name of its exposition as the value of `label`.

    Lines of one family stand together, as the format wants it; its help is that of the first that has it. Names and
    `label` must need no escaping.
    """
    families: dict[bytes, tuple[list[bytes], list[bytes]]] = {}  # name -> what describes it, its samples
    for name, text in expositions.items():
        added = f'{label}="{name}"'.encode()
        family: tuple[list[bytes], list[bytes]] = ([], [])
        for line in text.splitlines():
            if line.startswith((b"# HELP ", b"# TYPE ")):
                about, samples = families.setdefault(line.split(b" ", 3)[2], ([], []))
                family = (about, samples)
                if not any(line.startswith(each[:7]) for each in about):
                    about.append(line)
            elif line and not line.startswith(b"#"):
                family[1].append(_labelled(line, added))
    return b"".join(line + b"\n" for about, samples in families.values() for line in (*about, *samples))


def _labelled(line: bytes, label: bytes) -> bytes:
    found = _SAMPLE.match(line)
    if found is None:
        return line
    metric, has_labels = found.groups()
    rest = line[found.end() :]
    if not has_labels:
        return metric + b"{" + label + b"}" + rest
    return metric + b"{" + label + (b"" if rest.startswith(b"}") else b",") + rest

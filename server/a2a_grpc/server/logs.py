"""What the process writes to standard error: one record a line, for people or for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

import orjson

from a2a_grpc.server.telemetry.facts import known
from a2a_grpc.server.telemetry.tracing import here


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the time in RFC 3339."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            # What is known of the work in which it is written, then facts of its own (a call, the audit trail).
            **known(),
            **getattr(record, "fields", {}),
        }
        if (trace := here()) is not None:
            fields |= {"trace_id": trace.trace_id, "span_id": trace.span_id, "trace_flags": f"{trace.flags:02x}"}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(fields).decode()
        except TypeError:  # half a surrogate pair, say: no reason to lose a record
            return json.dumps(fields, default=str)


def configure(level: str, form: Literal["text", "json"]) -> None:
    """Log what is at least `level` to standard error."""
    # Nobody is told of these, and to find them out takes a third of the time of a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Who was refused and who ended what is on record even where only errors are logged.
    logging.getLogger("a2a_grpc.audit").setLevel(logging.INFO)
    if level != "debug":
        # It tells of each request, which an agent that keeps itself registered makes all the time.
        logging.getLogger("httpx").setLevel(logging.WARNING)

"""What the process writes to standard error: one record a line, for people or for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the time in RFC 3339."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        # Facts of the record, where it has some (the audit trail).
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def configure(level: str, form: Literal["text", "json"]) -> None:
    """Log what is at least `level` to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Who was refused and who ended what is on record even where only errors are logged.
    logging.getLogger("a2a_grpc.audit").setLevel(logging.INFO)
    if level != "debug":
        # It tells of each request, which an agent that keeps itself registered makes all the time.
        logging.getLogger("httpx").setLevel(logging.WARNING)

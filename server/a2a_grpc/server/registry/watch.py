"""Readiness of a registry: it is as ready as its store."""

import asyncio
import logging
from typing import Final

from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.registrations import Registrations

log = logging.getLogger(__name__)

_PROBE_INTERVAL: Final = 1.0
_SOON: Final = 1.0


async def watch_store(registrations: Registrations, readiness: Readiness) -> None:
    """Keep the component `store` of `readiness` true, for as long as the process lives."""
    readiness.set("store", False, "not reached yet")
    while True:
        was_ready = readiness.ready
        try:
            await registrations.ping(_SOON)
        except StoreUnavailableError as error:
            readiness.set("store", False, str(error))
        else:
            readiness.set("store", True)
        if readiness.ready != was_ready:
            log.info("ready" if readiness.ready else f"not ready: {readiness.snapshot()}")
        await asyncio.sleep(_PROBE_INTERVAL)

"""What `helm test` runs: call.py SECONDS URL [TENANT].

It waits so long for pods behind the Service at URL that are ready, and reads the agent card as callers do. Where a card
is for callers with credentials, the answer that says so is as good. With TENANT, which may be "", there is a card;
without, nobody knows whether the agents have one for callers that name no tenant.
"""

import json
import ssl
import sys
import time
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

TIMEOUT = 5
PAUSE = 1
# The last one is told who has come without credentials too often.
WITHOUT_CREDENTIALS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}

# The certificate has the names that callers know, of which the Service's need not be one.
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
tls.check_hostname = False
tls.verify_mode = ssl.CERT_NONE
opener = build_opener(ProxyHandler({}), HTTPSHandler(context=tls))


def get(url: str) -> tuple[int, str]:
    """The status and the body; 0 and the reason where there is no answer."""
    try:
        with opener.open(url, timeout=TIMEOUT) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refusal:
        return refusal.code, refusal.read().decode()
    except (OSError, HTTPException) as error:
        return 0, str(error)


def main(seconds: str, url: str, *tenant: str) -> None:
    """End the process with a sentence if something is not as it should be."""
    deadline = time.monotonic() + float(seconds)
    while True:
        status, told = get(f"{url}/readyz")
        if status == HTTPStatus.OK:
            break
        if time.monotonic() >= deadline:
            sys.exit(f"{url}/readyz: {status or 'no answer'} {told}")
        time.sleep(PAUSE)
    print(f"{url}/readyz: {told}")

    card = "/".join((url, *filter(None, tenant), ".well-known/agent-card.json"))
    status, told = get(card)
    if status == HTTPStatus.OK:
        print(f"{card}: {json.dumps(json.loads(told), indent=2)}")
    elif status in WITHOUT_CREDENTIALS:
        print(f"{card}: for callers with credentials ({status})")
    elif status == HTTPStatus.NOT_FOUND and not tenant:
        print(f"{card}: none for callers that name no tenant")
    else:
        sys.exit(f"{card}: {status or 'no answer'} {told}")


main(*sys.argv[1:])

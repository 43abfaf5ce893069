"""MLflow's registry webhooks: the registry tells a server that an alias has moved, instead of being asked all the time.

A message only makes the server ask at once, so whoever forged or repeated one would gain nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import time
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, HTTPException, Request

from sonorant.errors import SonorantError

PATH = "/v1/registry"
EVENTS: tuple[Any, ...] = ("model_version_alias.created", "model_version_alias.deleted")
FRESH_SECONDS = 300.0
"""A message that is older, or as far in the future, is not believed."""
DELIVERY, MOMENT, SIGNATURE = "x-mlflow-delivery-id", "x-mlflow-timestamp", "x-mlflow-signature"


def signature(secret: str, delivery: str, moment: str, body: bytes) -> str:
    """As MLflow signs a message (the convention of standardwebhooks.com)."""
    signed = f"{delivery}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest()).decode()


def is_genuine(secret: str, headers: dict[str, str], body: bytes, now: float) -> bool:
    """Whether the registry sent this, and lately. `headers` by names in lower case; `now`: seconds since 1970."""
    delivery, moment = headers.get(DELIVERY, ""), headers.get(MOMENT, "")
    if not moment.isascii() or not moment.isdigit() or len(moment) > 12 or abs(now - int(moment)) > FRESH_SECONDS:
        return False
    return hmac.compare_digest(signature(secret, delivery, moment, body).encode(), headers.get(SIGNATURE, "").encode())


def webhook_routes(secret: str, moved: asyncio.Event) -> APIRouter:
    """The route that the registry calls; `moved` is set when it does."""
    routes = APIRouter(tags=["Operation"])

    @routes.post(PATH, status_code=204, responses={403: {"description": "The signature is not the registry's"}})
    async def registry(request: Request) -> None:
        """What MLflow calls when an alias moves; the registry is then asked at once."""
        if not is_genuine(secret, dict(request.headers), await request.body(), time.time()):
            raise HTTPException(403, "the signature is not the registry's")
        moved.set()

    return routes


def subscribe(server: str, secret: str) -> None:
    """Have the registry call the server of this address, such as https://voices.example; done again, it changes the
    secret. Raises SonorantError if it has no webhooks, or does not take this address."""
    from mlflow.exceptions import MlflowException

    from sonorant.tracking.store import answering

    url = server.rstrip("/") + PATH
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise SonorantError(f"{server}: give the address at which the registry reaches this server, https://<host>")
    with answering(url) as store:
        if not store.uri.startswith("http"):
            raise SonorantError("webhooks are sent by an MLflow server, and MLFLOW_TRACKING_URI names none")
        try:
            known = [webhook for webhook in store.client.list_webhooks() if webhook.url == url]
            for webhook in known:
                store.client.update_webhook(webhook.webhook_id, events=list(EVENTS), secret=secret, status="ACTIVE")
            if not known:
                name = "sonorant-" + re.sub(r"[^A-Za-z0-9]+", "-", urlsplit(url).netloc)[:50].strip("-")
                store.client.create_webhook(name, url, list(EVENTS), secret=secret)
        except MlflowException as error:
            raise SonorantError(f"the registry takes no webhook to {url}: {' '.join(str(error).split())}") from None

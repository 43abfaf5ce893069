"""MLflow's registry webhooks: the registry tells a server that an alias has moved, instead of being asked all the time.

A message only makes the server ask at once, so whoever forged or repeated one would gain nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time

from fastapi import APIRouter, HTTPException, Request

PATH = "/v1/registry"
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

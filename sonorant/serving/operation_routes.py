"""Routes for operators: liveness, readiness, metrics, and MLflow's webhook, which reports that an alias has moved.

A webhook message only makes the server poll the registry, so a forged or repeated one gains nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from sonorant.serving.service import Service

PATH = "/v1/registry"
FRESH_SECONDS = 300.0
"""Largest age of a message, or distance in the future."""
DELIVERY, MOMENT, SIGNATURE = "x-mlflow-delivery-id", "x-mlflow-timestamp", "x-mlflow-signature"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def operation_routes(service: Service) -> APIRouter:
    """Routes without keys."""
    routes = APIRouter(tags=["Operation"])

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the server answers at all."""
        return {"status": "alive"}

    not_ready = "None of the loaded voices speaks, or the server is about to end"

    @routes.get("/readyz", responses={503: {"description": not_ready}})
    async def readyz() -> JSONResponse:
        """Whether the server takes requests, and the state of each voice."""
        voices: dict[str, Any] = {
            name: {
                "version": one.version or None,
                "loaded": one.loaded is not None,
                "processes": one.loaded.alive if one.loaded else 0,
                "trouble": one.not_loaded or one.trouble or (one.loaded and one.loaded.trouble) or None,
            }
            for name, one in service.voices.by_name.items()
        }
        # One dead voice does not make the server unready; unloaded voices load at their first request.
        loaded = [told for told in voices.values() if told["loaded"]]
        dead = bool(loaded) and not any(told["processes"] for told in loaded)
        ready = not service.draining and not dead
        status = "draining" if service.draining else "ready" if ready else "not ready"
        return JSONResponse({"status": status, "voices": voices}, 200 if ready else 503)

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """All counters, for Prometheus."""
        return PlainTextResponse(service.metrics.text(), media_type=PROMETHEUS)

    return routes


def signature(secret: str, delivery: str, moment: str, body: bytes) -> str:
    """MLflow's signature of a message (standardwebhooks.com)."""
    signed = f"{delivery}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest()).decode()


def is_genuine(secret: str, headers: dict[str, str], body: bytes, now: float) -> bool:
    """Whether the registry signed this message recently. `headers`: by lower-case name; `now`: seconds since 1970."""
    delivery, moment = headers.get(DELIVERY, ""), headers.get(MOMENT, "")
    if not moment.isascii() or not moment.isdigit() or len(moment) > 12 or abs(now - int(moment)) > FRESH_SECONDS:
        return False
    return hmac.compare_digest(signature(secret, delivery, moment, body).encode(), headers.get(SIGNATURE, "").encode())


def webhook_routes(secret: str, moved: asyncio.Event) -> APIRouter:
    """The route that the registry calls; sets `moved`."""
    routes = APIRouter(tags=["Operation"])

    @routes.post(PATH, status_code=204, responses={403: {"description": "The signature is not the registry's"}})
    async def registry(request: Request) -> None:
        """MLflow calls this when an alias moves; the server then polls the registry at once."""
        if not is_genuine(secret, dict(request.headers), await request.body(), time.time()):
            raise HTTPException(403, "the signature is not the registry's")
        moved.set()

    return routes

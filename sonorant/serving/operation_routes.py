"""Routes for operators: liveness, readiness and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse

from sonorant.serving.service import Service

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def operation_routes(service: Service) -> APIRouter:
    routes = APIRouter(tags=["Operation"])

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Report that the server is alive."""
        return {"status": "alive"}

    not_ready = "No loaded voice has a running process, or the server is shutting down"

    @routes.get("/readyz", responses={503: {"description": not_ready}})
    async def readyz() -> JSONResponse:
        """Report whether the server accepts requests, and the state of each voice."""
        voices: dict[str, Any] = {
            name: {
                "version": one.version or None,
                "loaded": one.loaded is not None,
                "processes": one.loaded.alive if one.loaded else 0,
                "trouble": one.not_loaded or one.trouble or (one.loaded and one.loaded.trouble) or None,
            }
            for name, one in service.voices.by_name.items()
        }
        # Unready only if all loaded voices are dead.
        loaded = [told for told in voices.values() if told["loaded"]]
        dead = bool(loaded) and not any(told["processes"] for told in loaded)
        ready = not service.draining and not dead
        status = "draining" if service.draining else "ready" if ready else "not ready"
        return JSONResponse({"status": status, "voices": voices}, 200 if ready else 503)

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Report metrics in Prometheus' format."""
        return PlainTextResponse(service.metrics.text(), media_type=PROMETHEUS)

    return routes

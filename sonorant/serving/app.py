"""The application: its routes, put together."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from sonorant.serving.answers import add_error_handlers
from sonorant.serving.health_routes import health_routes
from sonorant.serving.native_routes import native_routes
from sonorant.serving.openai_routes import openai_routes
from sonorant.serving.page_routes import page_routes
from sonorant.serving.request_checks import Gate
from sonorant.serving.service import Service
from sonorant.serving.webhook import webhook_routes

BYTES_A_CHARACTER = 12
"""At most: two JSON escapes such as \\ud83d."""
BYTES_BESIDE_TEXT = 16_000
SAYS = "Speech, from voices that Sonorant trained: OpenAI's interface, and one that tells more."


def application(service: Service, *, hosts: frozenset[str] | None, page: bool) -> FastAPI:
    """The server's application. `hosts`: names by which it may be called, None = any; `page`: whether the demo page is
    one of its pages."""
    app = FastAPI(title="Sonorant", description=SAYS, version=version("sonorant"), docs_url=None, redoc_url=None)
    for routes in (openai_routes, native_routes, health_routes):
        app.include_router(routes(service))
    if service.webhook:
        app.include_router(webhook_routes(service.webhook, service.moved))
    if page:
        app.include_router(page_routes(service))
    add_error_handlers(app)
    most = service.limits.characters * BYTES_A_CHARACTER + BYTES_BESIDE_TEXT
    app.add_middleware(Gate, most_bytes=most, hosts=hosts)
    return app

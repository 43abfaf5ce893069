"""MLflow webhooks for alias moves."""

import re
from typing import Any
from urllib.parse import urlsplit

from sonorant.errors import SonorantError
from sonorant.registry.tracking.mlflow_store import answering

EVENTS: tuple[Any, ...] = ("model_version_alias.created", "model_version_alias.deleted")


def subscribe(server: str, path: str, secret: str) -> None:
    """Have the registry call `path` on `server` (such as https://voices.example), signed with `secret`; calling
    again replaces the secret. Raises SonorantError if webhooks or the address are not supported."""
    from mlflow.exceptions import MlflowException

    url = server.rstrip("/") + path
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

"""Create missing buckets of the S3 store: `python -m infra.platform.buckets`.

Reads the standard variables of S3 clients (AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.platform.services import BUCKETS
from sonorant.errors import SonorantError
from tasks.stage import run

REMEDIES = {
    "InvalidAccessKeyId": "the store does not have this access key, or it expired; check S3_ACCESS_KEY",
    "SignatureDoesNotMatch": "the secret key is wrong; check S3_SECRET_KEY",
    "ExpiredToken": "the session token has expired; sign in again, or unset AWS_SESSION_TOKEN",
    "InvalidTokenId": "the session token is not valid; sign in again, or unset AWS_SESSION_TOKEN",
    "InvalidToken": "the session token is not valid; sign in again, or unset AWS_SESSION_TOKEN",
    "404": "no such bucket; create it with: python -m infra.platform.buckets",
    "NoSuchBucket": "no such bucket; create it with: python -m infra.platform.buckets",
    "403": "the store refuses the access key, its secret or the session token; check them",
    "XMinioStorageFull": "the store's disk or quota is full; free space and retry",
    "InternalError": "internal error, as from JuiceFS when its disk or quota is full; check its log and free space",
}
"""Cause and remedy by S3 error code."""


def client(environment: Mapping[str, str] = os.environ) -> Any:
    """Return an S3 client with short timeouts and one retry."""
    settings = Config(connect_timeout=5, read_timeout=60, retries={"total_max_attempts": 2})
    return boto3.client(
        "s3",
        endpoint_url=environment.get("AWS_ENDPOINT_URL_S3"),
        aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=environment.get("AWS_SESSION_TOKEN"),
        region_name=environment.get("AWS_DEFAULT_REGION", "us-east-1"),
        config=settings,
    )


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Convert errors of the store to a one-line SonorantError that contains `what` and the remedy."""
    try:
        yield
    except ClientError as error:
        code = str(error.response["Error"]["Code"])
        raise SonorantError(f"{what}: {REMEDIES.get(code, ' '.join(str(error).split())[:300])}") from None
    except BotoCoreError as error:
        raise SonorantError(f"{what}: {' '.join(str(error).split())[:300]}") from None


@contextmanager
def unless_gone() -> Iterator[None]:
    """Ignore errors about a missing object within the block."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchKey"):
            raise


def make_buckets() -> None:
    """Create missing buckets. Raises SonorantError if the store does not respond or rejects the keys."""
    store = client()
    with answering("S3 store"):
        known = {bucket["Name"] for bucket in store.list_buckets()["Buckets"]}
        for name in sorted(set(BUCKETS) - known):
            store.create_bucket(Bucket=name)


def objects(store: Any, bucket: str) -> Iterator[tuple[str, int]]:
    """Yield key and size in bytes of every object in a bucket, without folders."""
    for page in store.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for each in page.get("Contents", []):
            if not each["Key"].endswith("/"):
                yield each["Key"], each["Size"]


if __name__ == "__main__":
    run(make_buckets)

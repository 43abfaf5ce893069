"""Check that a server responds: `python -m infra.platform.health <address>`. Imports little, because it runs every few
seconds."""

import sys
import urllib.request

if __name__ == "__main__":
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=5) as reply:
            sys.exit(reply.status != 200)
    except OSError as error:
        sys.exit(f"error: {sys.argv[1]}: {error}")

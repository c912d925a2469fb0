"""Exit with 0 if the DevUI process on a port of this machine answers, also if it refuses the host or asks for a token.

A web process refuses hosts that DEVUI_ALLOWED_HOSTS does not name, and a worker wants a token. It does not ask whether
the store answers: a restart of the container would not help.

python healthcheck.py 8000
"""

from __future__ import annotations

import http.client
import sys

TIMEOUT_S = 4

client = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=TIMEOUT_S)
client.request("GET", "/health")
sys.exit(client.getresponse().status >= 500)

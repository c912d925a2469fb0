"""Processes that ask for more requests to a model than its limit has; prints how many each one got.

python -m tests.evals.concurrent_reservations DATABASE_URL PROCESSES REQUESTS LIMIT
"""

from __future__ import annotations

import os
import sys

import devui


def main(url: str, processes: int, requests: int, limit: int) -> int:
    """Fork the processes before anything connects, and let them ask at the same time."""
    devui.setup(url)
    from django.db import connections

    connections.close_all()
    ready, go = os.pipe()
    pids = []
    for _ in range(processes):
        if (pid := os.fork()) == 0:
            os.close(go)
            os.read(ready, 1)
            os.write(1, b"%d\n" % count_admitted(requests, limit))  # print() writes the line in two parts
            os._exit(0)
        pids.append(pid)
    os.close(go)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)


def count_admitted(requests: int, limit: int) -> int:
    from evals_app.rates import model_rates
    from evals_app.rates.rate_limits import RateLimit

    rate_limit = RateLimit(model="m", requests_per_minute=limit)
    replies = [model_rates.reserve("m", rate_limit) for _ in range(requests)]
    return sum(isinstance(reply, model_rates.Reservation) for reply in replies)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

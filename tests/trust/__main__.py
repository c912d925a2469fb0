"""`make trust`: hold the decision of comparisons to its targets. Exits 1 if one is missed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

from tests.trust import real_runs
from tests.trust.tables import (
    DROP_ROWS,
    FALSE_ALARM_ROWS,
    FALSE_ALARMS,
    REPETITIONS,
    SLACK,
    Cell,
    Row,
    compute,
)

WIDTH = 84


def main() -> int:
    """Print the tables; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--draws", type=int, default=400, help="simulated pairs of runs a cell (default: 400)"
    )
    parser.add_argument("--real-runs", type=int, default=20, help="runs of the command line (default: 20)")
    options = parser.parse_args()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        work = partial(compute, draws=options.draws)
        false_alarms = list(pool.map(work, FALSE_ALARM_ROWS))
        drops = list(pool.map(work, DROP_ROWS))
    print(f"{options.draws} simulated pairs of runs a cell (fewer for 200 cases).")
    met = _print(
        f"Nothing changed: --fail-on regression fails, % (at most {FALSE_ALARMS:.0f})",
        FALSE_ALARM_ROWS,
        false_alarms,
    )
    met &= _print(
        f"A planted drop is found, % (target; {SLACK:.0f} points less are accepted)", DROP_ROWS, drops
    )
    met &= _count_real_failures(options.real_runs)
    print("All targets are met." if met else "A target is missed (marked with !).")
    return 0 if met else 1


def _print(title: str, rows: Sequence[Row], results: Sequence[dict[int, Cell]]) -> bool:
    print(f"\n{title}")
    print(f"{'repetitions':{WIDTH}}" + "".join(f"{count:>12}" for count in REPETITIONS))
    for row, cells in zip(rows, results, strict=True):
        print(
            f"{row.name:{WIDTH}}" + "".join(f"{_cell_text(cells[count]):>12}" for count in REPETITIONS),
            flush=True,
        )
    return all(cell.met for cells in results for cell in cells.values())


def _cell_text(cell: Cell) -> str:
    target = f" ({cell.target:.0f})" if cell.target is not None else ""
    return f"{cell.percent:.1f}{target}{'' if cell.met else '!'}"


def _count_real_failures(runs: int) -> bool:
    """Run the command line without a change; the gate may fail as often as five percent of so many runs make likely."""
    print(f"\nReal runs: 20 cases at {real_runs.RATE}, {real_runs.REPETITIONS} repetitions, gate fails")
    sys.stdout.flush()
    with ThreadPoolExecutor() as pool:
        same_code = pool.submit(real_runs.count_false_alarms, runs // 2, same_code=True)
        other_code = pool.submit(real_runs.count_false_alarms, runs, same_code=False)
        failed_same, compared_same = same_code.result()
        likely_same, likely = max(2, round(compared_same * 0.15)), max(2, round(runs * 0.15))
        print(
            f"{f'same code (at most {likely_same})':{WIDTH}}{failed_same:>6} of {compared_same}", flush=True
        )
        failed, compared = other_code.result()
    print(f"{f'other code, same behavior (at most {likely})':{WIDTH}}{failed:>6} of {compared}", flush=True)
    return failed_same <= likely_same and failed <= likely


if __name__ == "__main__":
    sys.exit(main())

"""`make parity`: the scores of DevUI are those of `adk eval` on the same files.

    python -m tests.parity [--venv .venv-parity]

`google-adk[eval]` goes into a virtual environment of its own, never into that of the tests, where it would hide an
import of pandas. There `adk eval` runs the example evalsets and a made corpus; here `run_evals` runs them. Then every
score and verdict is laid beside the other, of each case as a whole and of each turn.
"""

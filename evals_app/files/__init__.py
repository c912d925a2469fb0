"""Evalset files: the truth about eval cases. Read here, mirrored into rows by `library`."""

from evals_app.files.problems import BadFile, Problem
from evals_app.files.reading import EvalSetContent, parse, read_file, read_text

__all__ = ["BadFile", "EvalSetContent", "Problem", "parse", "read_file", "read_text"]

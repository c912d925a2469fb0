"""Evalset files, the source of truth about eval cases. `library` mirrors them into rows."""

from evals_app.files.parsing import EvalSetContent, parse, read_file, read_text
from sessions_app.file_problems import BadFile, FileProblem

__all__ = ["BadFile", "EvalSetContent", "FileProblem", "parse", "read_file", "read_text"]

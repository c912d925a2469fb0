"""Imports of a run: the modules that it does without, and the stemmer without the rest of `nltk`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evals.run_evals_command import EXAMPLE_AGENTS, environment, run_evals_argv

ROOT = Path(__file__).resolve().parents[2]

UNNEEDED = {
    "channels.generic",
    "devui.asgi",
    "devui.urls",
    "devui.web",
    "evals_app.analysis.exports.html_page",
    "evals_app.api",
    "evals_app.views",
    "ninja",
    "nltk",
    "numpy",
    "pandas",
    "scipy",
    "sessions_app.api",
    "sessions_app.live",
    "sessions_app.timeline",
    "sessions_app.views",
    "sklearn",
    "uvicorn",
    "whitenoise",
}
"""Modules that a run has no use for, though an installed package or DevUI's pages import them."""

MODULE = re.compile(r"^import time: +\d+ \| +\d+ \| *(\S+)$", re.MULTILINE)

IMPORT_STEMMER = """
import sys
sys.modules["scipy.stats"] = None  # nltk imports it if it is there, which takes a second; users do not have it
from evals_app.execution.rouge_import import import_rouge_score

def imported(*packages):
    return sorted(name for name in sys.modules if name.partition(".")[0] in packages)
"""

SAME_STEMS = """
import re
from pathlib import Path
from pydoc_data.topics import topics

import_rouge_score()
from rouge_score import rouge_scorer, tokenizers

texts = [*topics.values(), *(path.read_text() for path in Path("docs").glob("*.md"))]
code = [path.read_text() for folder in ("sessions_app", "tests") for path in Path(folder).rglob("*.py")]
words = sorted({word.lower() for text in (*texts, *code) for word in re.findall("[A-Za-z]+", text)})
assert imported("nltk", "numpy") == [], imported("nltk", "numpy")
stems = [*map(tokenizers.DefaultTokenizer(use_stemmer=True).tokenize, words)]

def score_texts(scorer):
    starts = [text[:2000] for text in texts]
    return [scorer.score(text, other) for text, other in zip(starts, starts[1:])]

scores = score_texts(rouge_scorer.RougeScorer(["rouge1"], use_stemmer=True))
for name in imported("rouge_score"):
    del sys.modules[name]
import nltk
from rouge_score import rouge_scorer, tokenizers

assert tokenizers.porter is nltk.stem.porter
assert stems == [*map(tokenizers.DefaultTokenizer(use_stemmer=True).tokenize, words)]
assert scores == score_texts(rouge_scorer.RougeScorer(["rouge1"], use_stemmer=True))
print(len(words), len(scores))
"""

REAL_PACKAGES = """
import_rouge_score()
from rouge_score import rouge_scorer, scoring

scorer = rouge_scorer.RougeScorer(["rouge1"])
bootstrap = scoring.BootstrapAggregator()
bootstrap.add_scores(scorer.score("a b", "a c"))
assert bootstrap.aggregate()["rouge1"].mid.fmeasure == 0.5
import nltk, numpy
from nltk.stem import PorterStemmer

assert type(nltk) is type(numpy) is type(sys)
assert nltk.stem.porter.PorterStemmer is PorterStemmer
assert rouge_scorer.nltk.sent_tokenize is nltk.sent_tokenize
assert scoring.np.mean is numpy.mean
"""

IMPORTED_BEFORE = """
import nltk
import_rouge_score()
from rouge_score import rouge_scorer, tokenizers

assert rouge_scorer.nltk is nltk is sys.modules["nltk"]
assert tokenizers.porter is nltk.stem.porter
"""

NEEDS_MORE = """
import_rouge_score()
from rouge_score import rouge_scorer
import nltk, numpy

assert rouge_scorer.{name} is {package}.{name}
"""


def run_script(script: str, *paths: Path) -> str:
    """Return what a fresh interpreter prints."""
    setup = f"import sys; sys.path[:0] = {[*map(str, paths), str(ROOT)]}\n"
    command = [sys.executable, "-c", setup + IMPORT_STEMMER + script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_run_imports_nothing_that_it_does_not_need(store):
    argv = run_evals_argv(EXAMPLE_AGENTS / "weather", "lookups:one_city")
    argv[1:1] = ["-X", "importtime"]
    done = subprocess.run(argv, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300)
    assert "1 of 1 passed" in done.stdout, done.stdout
    modules = set(MODULE.findall(done.stderr))
    assert {"rouge_score.tokenizers", "nltk.stem.porter"} <= modules
    assert modules & UNNEEDED == set()


def test_stems_and_scores_are_those_of_the_whole_package():
    words, scores = run_script(SAME_STEMS).split()
    assert (int(words) > 5_000, int(scores) > 50) == (True, True)


@pytest.mark.parametrize("script", [REAL_PACKAGES, IMPORTED_BEFORE], ids=["later", "before"])
def test_other_code_gets_the_real_packages(script):
    run_script(script)


@pytest.mark.parametrize(
    ("package", "name"), [("nltk", "word_tokenize"), ("nltk.corpus", "stopwords"), ("numpy", "mean")]
)
def test_release_that_needs_more_is_imported_with_everything(tmp_path, package, name):
    (tmp_path / "rouge_score").mkdir()
    (tmp_path / "rouge_score" / "__init__.py").touch()
    (tmp_path / "rouge_score" / "rouge_scorer.py").write_text(f"from {package} import {name}\n")
    run_script(NEEDS_MORE.format(package=package, name=name), tmp_path)

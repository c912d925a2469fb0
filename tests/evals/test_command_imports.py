"""What the command line imports to be quick is as good as the whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TOLD = """
import sys
from evals_app.engine.rouge_import import import_scorer

import_scorer()
assert not [name for name in sys.modules if name.partition(".")[0] == "nltk"], "nltk is left for others to import"
from google.adk.dependencies.rouge_scorer import rouge_scorer

scorer = rouge_scorer.RougeScorer(["rouge1"], use_stemmer=True)
stemmed = scorer.score("running quickly", "it runs and runs")["rouge1"]
import nltk
import nltk.stem.porter

assert nltk.__file__ and nltk.stem.snowball, "the whole nltk is imported by who wants it"
assert rouge_scorer.nltk.sent_tokenize is nltk.sent_tokenize, "and by the scorer, when it needs it"
print(stemmed.precision, stemmed.recall)
"""


def test_the_scorer_stems_as_ever_and_nltk_is_whole_for_everybody_else():
    done = subprocess.run([sys.executable, "-c", TOLD], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0.25", "0.5"], done.stdout + done.stderr

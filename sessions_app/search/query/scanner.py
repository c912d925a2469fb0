"""Scanner of query text: words, comparisons, quotation marks, and errors. Pure."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from sessions_app.search.query.terms import ARROW, OPERATORS, When, is_suffix
from sessions_app.store.errors import BadInput


class QueryError(BadInput):
    """An invalid query.

    Attributes:
        start, end: offsets of the invalid part of the text.
    """

    code: ClassVar[str] = "bad_query"

    def __init__(self, message: str, start: int, end: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.start = start
        self.end = end

    def split(self, text: str) -> tuple[str, str, str]:
        """Return the query before its invalid part, the part (a space if it is empty), and the rest."""
        return text[: self.start], text[self.start : self.end] or " ", text[self.end :]


class Atom(NamedTuple):
    """A word of the query: its offsets, its characters, and which of them were quoted."""

    start: int
    end: int
    text: str
    quoted: tuple[bool, ...]

    @property
    def place(self) -> tuple[int, int]:
        """Its start and end."""
        return self.start, self.end

    @property
    def is_bare(self) -> bool:
        """Return whether it is not empty and no part is quoted."""
        return bool(self.text) and not any(self.quoted)

    def find(self, mark: str) -> int:
        """Return the index of an unquoted mark in the text, or -1."""
        index = self.text.find(mark)
        while index >= 0 and any(self.quoted[index : index + len(mark)]):
            index = self.text.find(mark, index + 1)
        return index

    def after(self, length: int) -> Atom:
        """Return the atom without its first characters."""
        return self._replace(text=self.text[length:], quoted=self.quoted[length:])


class Scanner:
    """Scans one text. `at` is the offset of the next character.

    A word ends at a space or comparison; quotation marks include both.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def is_at_end(self) -> bool:
        """Return whether the end of the text is reached."""
        return self.at == len(self.text)

    def skip_space(self) -> None:
        """Move to the next character that is not a space."""
        self.at = self.beyond_space()

    def take_negation(self) -> bool:
        """Move past a minus sign that negates a term; return whether there is one."""
        ahead = self.text[self.at : self.at + 2]
        if len(ahead) == 2 and ahead[0] == "-" and not ahead[1].isspace() and ahead != ARROW:
            self.at += 1
            return True
        return False

    def operator(self, at: int | None = None) -> str:
        """Return the comparison at the current or another offset, or an empty string."""
        offset = self.at if at is None else at
        return next((op for op in OPERATORS if self.text.startswith(op, offset)), "")

    def take_operator(self) -> str:
        """Return the comparison at the current offset and move past it."""
        op = self.operator()
        self.at += len(op)
        return op

    def word_end(self, offset: int) -> int:
        """Return the offset of the next space, or of the end."""
        while offset < len(self.text) and not self.text[offset].isspace():
            offset += 1
        return offset

    def take_atom(self) -> Atom:
        """Read up to a space or comparison; quoted text is taken literally."""
        start, text, marks = self.at, "", []
        while not self.is_at_end and not self.text[self.at].isspace():
            if self.text.startswith(ARROW, self.at):
                piece, is_quoted = ARROW, False
                self.at += len(ARROW)
            elif self.operator():
                break
            elif self.text[self.at] == '"':
                piece, is_quoted = self.take_quoted(), True
            else:
                piece, is_quoted = self.text[self.at], False
                self.at += 1
            text += piece
            marks += [is_quoted] * len(piece)
        return Atom(start, self.at, text, tuple(marks))

    def take_quoted(self) -> str:
        """Read a quoted text; a backslash escapes the next character."""
        start, text = self.at, ""
        self.at += 1
        while not self.is_at_end:
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return text
            if char == "\\" and self.at + 1 < len(self.text):
                self.at += 1
                char = self.text[self.at]
            text += char
            self.at += 1
        raise QueryError(
            "The quotation mark is not closed.",
            start,
            len(self.text),
            hint=r"Close it, or write \" for a quotation mark inside quoted text.",
        )

    def comparison_follows(self) -> int | None:
        """Return the offset of a comparison after spaces, or None."""
        ahead = self.beyond_space()
        return ahead if self.operator(ahead) else None

    def suffix_follows(self) -> str:
        """Return `ever`, `missing` or `never` if it is the next word, else an empty string."""
        ahead = self.beyond_space()
        if ahead == self.at:
            return ""
        word = self.text[ahead : self.word_end(ahead)]
        return word.lower() if is_suffix(word) else ""

    def take_suffix(self) -> When:
        """Return the time suffix of a state term, and move past it."""
        suffix = self.suffix_follows()
        if not suffix:
            return When.NOW
        self.skip_space()
        self.at += len(suffix)
        return When(suffix)

    def beyond_space(self) -> int:
        """Return the offset of the next character that is not a space, or of the end."""
        ahead = self.at
        while ahead < len(self.text) and self.text[ahead].isspace():
            ahead += 1
        return ahead

"""The text of a query, read from its start to its end: words, comparisons, quotation marks, and refusals. Pure."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from sessions_app.search.query.query_errors import QueryError
from sessions_app.search.query.terms import ARROW, FOREIGN_OPERATORS, OPERATORS, When, is_suffix, quote

Replacement = tuple[int, int, str]
"""Which part of a text was probably meant to be what."""


class Atom(NamedTuple):
    """A word of the query as it was read: its place, its characters, and which of them stood in quotation marks."""

    start: int
    end: int
    text: str
    quoted: tuple[bool, ...]

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands."""
        return self.start, self.end

    @property
    def is_bare(self) -> bool:
        """Tell whether nothing in it was quoted and it is no quoted nothing."""
        return bool(self.text) and not any(self.quoted)

    def find(self, mark: str) -> int:
        """Return where an unquoted mark begins in the text, or -1."""
        at = self.text.find(mark)
        while at >= 0 and any(self.quoted[at : at + len(mark)]):
            at = self.text.find(mark, at + 1)
        return at

    def after(self, length: int) -> Atom:
        """Return the atom without its first characters."""
        return self._replace(text=self.text[length:], quoted=self.quoted[length:])


class Scanner:
    """Reads one text. `at` is the offset of what is read next.

    A word is read up to the next space or comparison; quotation marks keep both.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def is_at_end(self) -> bool:
        """Tell whether all of the text was read."""
        return self.at == len(self.text)

    def skip_space(self) -> None:
        """Go on to the next character that is no space."""
        self.at = self.beyond_space()

    def take_negation(self) -> bool:
        """Go on behind a minus sign that stands before a term; return whether there is one."""
        ahead = self.text[self.at : self.at + 2]
        if len(ahead) == 2 and ahead[0] == "-" and not ahead[1].isspace() and ahead != ARROW:
            self.at += 1
            return True
        return False

    def operator(self, at: int | None = None) -> str:
        """Return the comparison that stands here or at another place, or nothing."""
        place = self.at if at is None else at
        return next((op for op in OPERATORS if self.text.startswith(op, place)), "")

    def take_operator(self) -> str:
        """Return the comparison that stands here and go on behind it.

        Raises:
            QueryProblem: it is one of another language.
        """
        foreign = self.text[self.at : self.at + 2]
        if meant := FOREIGN_OPERATORS.get(foreign):
            self.refuse(
                f"There is no comparison {foreign!r}: did you mean {meant!r}?",
                self.at,
                self.at + len(foreign),
                hint="A value that begins with < or > stands in quotation marks.",
                instead=(self.at, self.at + len(foreign), meant),
            )
        op = self.operator()
        self.at += len(op)
        return op

    def word_end(self, at: int) -> int:
        """Return where the next space stands, or the end."""
        while at < len(self.text) and not self.text[at].isspace():
            at += 1
        return at

    def take_atom(self) -> Atom:
        """Read up to a space or a comparison; what stands in quotation marks is taken as it is."""
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
        """Read a text in quotation marks, in which a backslash takes the next character as it is."""
        start, found = self.at, ""
        self.at += 1
        while not self.is_at_end:
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return found
            if char == "\\" and self.at + 1 < len(self.text):
                self.at += 1
                char = self.text[self.at]
            found += char
            self.at += 1
        end, meant = len(self.text), found.rstrip()
        raise self.problem(
            "The quotation mark is never closed.",
            start,
            end,
            hint=r"Close it, or write \" for a quotation mark inside quoted text.",
            instead=(start, end, quote(meant) if meant else ""),
        )

    def comparison_follows(self) -> int | None:
        """Return where the comparison behind the spaces begins, or None."""
        ahead = self.beyond_space()
        return ahead if self.operator(ahead) else None

    def suffix_follows(self) -> str:
        """Return `ever`, `missing` or `never` when one is the next word, else nothing."""
        ahead = self.beyond_space()
        if ahead == self.at:
            return ""
        word = self.text[ahead : self.word_end(ahead)]
        return word.lower() if is_suffix(word) else ""

    def take_suffix(self) -> When:
        """Return when a term about state holds, and go on behind the word that says so."""
        suffix = self.suffix_follows()
        if not suffix:
            return When.NOW
        self.skip_space()
        self.at += len(suffix)
        return When(suffix)

    def refuse(
        self,
        message: str,
        start: int,
        end: int | None = None,
        *,
        hint: str = "",
        instead: Replacement | None = None,
    ) -> NoReturn:
        """Refuse the text: see `problem`.

        Raises:
            QueryProblem: always.
        """
        raise self.problem(message, start, end, hint=hint, instead=instead)

    def problem(
        self,
        message: str,
        start: int,
        end: int | None = None,
        *,
        hint: str = "",
        instead: Replacement | None = None,
    ) -> QueryError:
        """Return what is wrong from `start` to `end`, without one to the end of the text."""
        suggestion = ""
        if instead:
            first, last, meant = instead
            suggestion = (self.text[:first] + meant + self.text[last:]).strip()
        return QueryError(
            message, start, len(self.text) if end is None else end, hint=hint, suggestion=suggestion
        )

    def beyond_space(self) -> int:
        """Return where the next character stands that is no space, or the end."""
        ahead = self.at
        while ahead < len(self.text) and self.text[ahead].isspace():
            ahead += 1
        return ahead

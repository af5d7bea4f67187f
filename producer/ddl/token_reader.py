"""A walk over the tokens of a statement. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cdcbus.producer.ddl.tokens import Kind, Token


class NotUnderstood(Exception):
    """The text continues in a way that is not known here."""


class TokenReader:
    """A position in a sequence of tokens: looks at the next one, and passes what it expects."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        end = len(tokens)
        # Clients may send a statement with its delimiter, and servers log it as it came.
        while end and tokens[end - 1] == Token(Kind.SIGN, ";"):
            end -= 1
        self._tokens = tokens[:end]
        self._at = 0

    def kind(self) -> Kind | None:
        """The next token's kind; None at the end."""
        if self.is_done():
            return None
        return self._tokens[self._at].kind

    def word(self, ahead: int = 0) -> str:
        """The next keyword, sign or number, in upper case; empty at the end, a blank for quoted
        names and for strings."""
        if self._at + ahead >= len(self._tokens):
            return ""
        token = self._tokens[self._at + ahead]
        # `ADD` in backquotes is a column's name, never the keyword
        if token.kind in (Kind.NAME, Kind.STRING):
            return " "
        return token.text.upper()

    def comes(self, *words: str) -> bool:
        """Whether these words are next."""
        return all(self.word(ahead) == word for ahead, word in enumerate(words))

    def skip(self, *words: str) -> bool:
        """Passes these words if they are next, and says whether they were."""
        if not self.comes(*words):
            return False
        self._at += len(words)
        return True

    def skip_one_of(self, *phrases: str) -> bool:
        """Passes the first of these phrases that is next, and says whether one was."""
        return any(self.skip(*phrase.split()) for phrase in phrases)

    def skip_all_of(self, words: Sequence[str]) -> None:
        """Passes these words in any order, while one is next."""
        while self.word() in words:
            self.take()

    def expect(self, *words: str) -> None:
        """Passes these words. Raises NotUnderstood if others are next."""
        if not self.skip(*words):
            raise NotUnderstood

    def take(self) -> Token:
        """Passes the next token. Raises NotUnderstood at the end."""
        if self.is_done():
            raise NotUnderstood
        self._at += 1
        return self._tokens[self._at - 1]

    def name(self) -> str:
        """Passes a name, quoted or not."""
        token = self.take()
        if token.kind not in (Kind.NAME, Kind.WORD):
            raise NotUnderstood
        return token.text

    def column_name(self) -> str:
        """Passes a column's name; the names of its table and schema may precede it."""
        self.skip(".")
        name = self.name()
        while self.skip("."):
            name = self.name()
        return name

    def number_in_parentheses(self) -> int:
        """Passes a pair of parentheses with one number between them."""
        inside = self.parentheses()
        if len(inside) != 1 or not inside[0].text.isdecimal():
            raise NotUnderstood
        return int(inside[0].text)

    def is_done(self) -> bool:
        return self._at >= len(self._tokens)

    def end(self) -> None:
        """Raises NotUnderstood unless all tokens were passed."""
        if not self.is_done():
            raise NotUnderstood

    def rest(self) -> list[Token]:
        """Passes all tokens that are left."""
        found = list(self._tokens[self._at :])
        self._at = len(self._tokens)
        return found

    def parentheses(self) -> list[Token]:
        """Passes a pair of parentheses, and returns the tokens between them."""
        self.expect("(")
        start = self._at
        depth = 1
        while depth:
            depth += _depth(self.take())
        return list(self._tokens[start : self._at - 1])


def keywords(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def split_at_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    """The parts between the commas outside parentheses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += _depth(token)
        if token.kind is Kind.SIGN and token.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _depth(token: Token) -> int:
    if token.kind is not Kind.SIGN:
        return 0
    return {"(": 1, ")": -1}.get(token.text, 0)

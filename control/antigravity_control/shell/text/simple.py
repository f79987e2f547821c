"""Simple commands: assignments, words and redirections, up to the operator that ends them.

Owns: which word is the command's name. The first half of the grammar; ``grammar.py`` adds lists and compound commands.
"""

import re

from .ast import Assignment, Compound, Part, RawWord, Redirect, Simple, Text
from .budget import BrokenError
from .scanner import Scanner

_REDIRECT = re.compile(r"(?P<fd>\d+|\{[A-Za-z_]\w*\})?(?P<op><<<|<<-|<<|<&|<>|<(?!\()|&>>|&>|>>|>&|>\||>(?!\())")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<index>\[[^\]]*\])?(?P<add>\+)?=")
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[")
FUNCTION_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
RESERVED = frozenset(
    {"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function",
     "{", "}", "!", "time", "[[", "coproc"}
)  # fmt: skip
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})


class SimpleReader(Scanner):
    def function_body(self, name: RawWord) -> Compound:
        raise NotImplementedError  # the grammar's part: a body is a compound command

    def gap(self) -> None:
        """Skips blanks, comments and newlines."""
        self.blanks()
        while self.at("\n"):
            self.newline()
            self.blanks()

    def simple(self) -> Simple | Compound:
        self.budget.spend(20)
        start = self.i
        node = Simple()
        while not self.done():
            self.blanks()
            if self._redirect(node.redirects):
                continue
            word = self.word()
            if word is None:
                break
            if not node.words:
                if not self._first_word(word, node):
                    continue
            else:
                node.words.append(word)
            if self.at("(") and not self._array_argument(word, node):
                return self._definition(node, start)
        if not (node.words or node.assignments or node.redirects):
            raise BrokenError("a command is missing")
        node.raw = self.text[start : self.i]
        return node

    def _first_word(self, word: RawWord, node: Simple) -> bool:
        """Files a word before the command's name. True when it is the name itself."""
        leading = word.leading()
        match = _ASSIGNMENT.match(leading)
        if match:
            node.assignments.append(self._assignment(match, word, leading))
            return False
        if _SUBSCRIPT.match(leading):
            self.budget.ask("an assignment whose subscript is quoted or expanded")
        if word.unquoted() in RESERVED:
            raise BrokenError("a reserved word stands where a command should")
        node.words.append(word)
        return True

    def _array_argument(self, word: RawWord, node: Simple) -> bool:
        """``declare name=(…)``: the elements become words of the command, so that what they run is seen."""
        name = node.words[0].unquoted() or ""
        if name not in _DECLARING or not word.leading().endswith("="):
            return False
        self.i += 1
        self._elements(node.words)
        return True

    def _definition(self, node: Simple, start: int) -> Compound:
        parentheses = FUNCTION_PARENTHESES.match(self.text, self.i)
        if len(node.words) != 1 or not parentheses or node.assignments or node.redirects:
            raise BrokenError("a parenthesis stands where none may")
        self.i = parentheses.end()
        self.budget.enter()
        function = self.function_body(node.words[0])
        self.budget.leave()
        function.raw = self.text[start : self.i]
        return function

    def _assignment(self, match: re.Match[str], word: RawWord, leading: str) -> Assignment:
        name = match.group("name")
        cut = len(match.group())
        rest: list[Text] = [Text(leading[cut:], quoted=False)] if leading[cut:] else []
        skipped = 0
        others: list[Part] = []
        for part in word.parts:
            if skipped < len(leading) and isinstance(part, Text):
                skipped += len(part.value)
            else:
                others.append(part)
        value = RawWord((*rest, *others), word.raw)
        elements: list[RawWord] = []
        array = not value.parts and self.at("(")
        if array:
            self.i += 1
            self._elements(elements)
        plain = not (match.group("index") or match.group("add") or array)
        return Assignment(name, elements[0] if elements else value, tuple(elements), plain, bool(match.group("add")))

    def _elements(self, into: list[RawWord]) -> None:
        while True:
            self.gap()
            if self.at(")"):
                self.i += 1
                return
            word = self.word()
            if word is None:
                raise BrokenError("an array does not close")
            into.append(word)

    # -- redirections -------------------------------------------------------------------------------------------

    def redirects(self, into: list[Redirect]) -> None:
        self.blanks()
        while self._redirect(into):
            self.blanks()

    def _redirect(self, into: list[Redirect]) -> bool:
        match = _REDIRECT.match(self.text, self.i)
        if not match:
            return False
        op = match.group("op")
        if op.startswith("&") and match.group("fd"):
            return False
        self.i = match.end()
        if self.at("\\\n") and len(op) < 3:
            self.budget.ask("a continuation inside an operator")
        self.blanks()
        target = self.word()
        if target is None:
            raise BrokenError("a redirection has no target")
        redirect = Redirect(op, match.group("fd"), target)
        into.append(redirect)
        if op in {"<<", "<<-"}:
            self.await_heredoc(redirect, strip=op == "<<-")
        return True

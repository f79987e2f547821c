"""Characters to words, as bash cuts and quotes them.

Owns: quoting of every kind, line continuation, expansions inside words, here-documents. ``grammar.py`` builds commands
on top of it. Never: gives a word its value (``values/``) or runs anything.
"""

import re

from .ansi_c import decode
from .ast import Param, Part, Program, RawWord, Redirect, Sub, Text, programs_of
from .budget import BrokenError, Budget

METACHARACTERS = frozenset(" \t\n;&|()<>")
_PLAIN = re.compile(r"[^\\'\"$`<>;&|() \t\n]+")
_PLAIN_SPAN = re.compile(r"[^\\'\"$`(){}]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_BRACE_NAME = re.compile(r"[!#]?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(?:\[[^\]$`\"'}]*\])?")
_EXPANSION = re.compile(r":?[-=?+]|##?|%%?|//?|\^\^?|,,?|@[A-Za-z]|:|")
_CONTINUED_NAME = re.compile(r"\\\n\w")
_REGEX_EXTRA = frozenset("()|<>;&")


class Scanner:
    def __init__(self, text: str, budget: Budget) -> None:
        budget.spend(len(text) + 1)
        self.text = text
        self.i = 0
        self.budget = budget
        self.pending: list[tuple[Redirect, str, bool]] = []

    def program(self, closers: frozenset[str]) -> Program:
        raise NotImplementedError  # the grammar's part: a scanner alone reads no commands

    def nested(self, text: str) -> "Scanner":
        """A reader of the same kind for text that was cut out of this one."""
        return type(self)(text, self.budget)

    # -- characters ---------------------------------------------------------------------------------------------

    def at(self, prefix: str) -> bool:
        return self.text.startswith(prefix, self.i)

    def peek(self, ahead: int = 0) -> str:
        place = self.i + ahead
        return self.text[place] if place < len(self.text) else ""

    def done(self) -> bool:
        return self.i >= len(self.text)

    def blanks(self) -> None:
        """Skips blanks, continuations and a comment."""
        text, size = self.text, len(self.text)
        while self.i < size:
            char = text[self.i]
            if char in " \t":
                self.i += 1
            elif text.startswith("\\\n", self.i):
                self.i += 2
            elif char == "#":
                end = text.find("\n", self.i)
                self.i = size if end < 0 else end
            else:
                return
            self.budget.spend()

    def newline(self) -> None:
        """Steps over the newline at the current place and reads the here-documents that begin after it."""
        self.i += 1
        waiting, self.pending = self.pending, []
        for redirect, delimiter, strip in waiting:
            self._heredoc(redirect, delimiter, strip)

    # -- words --------------------------------------------------------------------------------------------------

    def word(self, *, pattern: bool = False) -> RawWord | None:
        """The word at the current place. ``pattern``: parentheses and operators belong to it (``[[ x =~ … ]]``)."""
        start = self.i
        parts: list[Part] = []
        depth = 0
        while not self.done():
            self.budget.spend()
            char = self.text[self.i]
            if char in METACHARACTERS:
                if char in "<>" and self.peek(1) == "(" and not pattern:
                    parts.append(self._process())
                    continue
                if char == "(" and self.i > start and self.text[self.i - 1] in "?*+@!" and not pattern:
                    self._extended(parts)
                    continue
                if not pattern or (char not in _REGEX_EXTRA and not depth) or char == "\n":
                    break
                depth += (char == "(") - (char == ")")
                parts.append(Text(char, quoted=False))
                self.i += 1
            else:
                self._piece(char, parts)
        if self.i == start:
            return None
        return RawWord(tuple(parts), self.text[start : self.i])

    def _extended(self, parts: list[Part]) -> None:
        """``@(a|b)`` and the like: a pattern where ``extglob`` is on, a fault where it is not."""
        self.budget.ask("an extended pattern")
        start, depth = self.i, 0
        while not self.done():
            self.budget.spend()
            char = self.text[self.i]
            self.i += 1
            depth += (char == "(") - (char == ")")
            if not depth:
                break
        if depth or "\n" in self.text[start : self.i]:
            raise BrokenError("a parenthesis stands where none may")
        parts.append(Text(self.text[start : self.i], quoted=False))

    def _piece(self, char: str, parts: list[Part]) -> None:
        plain = _PLAIN.match(self.text, self.i)
        if plain:
            self.i = plain.end()
            if parts:
                self._joined(parts, plain.group())
            else:
                parts.append(Text(plain.group(), quoted=False))
        elif char == "\\":
            self._escape(parts)
        elif char == "'":
            parts.append(Text(self._single(), quoted=True))
        elif char == '"':
            self.i += 1
            self._double(parts)
        elif char == "`":
            parts.append(self._backtick(quoted=False))
        else:
            self._dollar(parts, quoted=False)

    def _joined(self, parts: list[Part], text: str) -> None:
        """Unquoted text; what a continuation cut in two is one text again, so that a tilde and its slash meet."""
        last = parts[-1] if parts else None
        if isinstance(last, Text) and not last.quoted:
            parts[-1] = Text(last.value + text, quoted=False)
        else:
            parts.append(Text(text, quoted=False))

    def _escape(self, parts: list[Part]) -> None:
        following = self.peek(1)
        self.i += 2
        if following == "\n":
            return
        if not following:
            self.budget.ask("a backslash ends the line")
            following = "\\"
        parts.append(Text(following, quoted=True))

    def _single(self) -> str:
        end = self.text.find("'", self.i + 1)
        if end < 0:
            raise BrokenError("a quote is not closed")
        value = self.text[self.i + 1 : end]
        self.i = end + 1
        return value

    def _double(self, parts: list[Part]) -> None:
        """The rest of a double-quoted text, its opening quote being read already."""
        parts.append(Text("", quoted=True))
        parts.extend(self.span('"', in_quotes=True))

    def span(self, stop: str, *, in_quotes: bool, in_braces: bool = False) -> list[Part]:
        """Parts up to ``stop`` (empty: to the end of the text), which is stepped over. Inside quotes a backslash keeps
        its place before ordinary characters; outside quotes all kinds of quotes count."""
        parts: list[Part] = []
        while not self.done():
            self.budget.spend()
            if stop and self.at(stop):
                self.i += len(stop)
                return parts
            run = _PLAIN_SPAN.match(self.text, self.i)
            if run:
                self.i = run.end()
                parts.append(Text(run.group(), quoted=in_quotes))
            else:
                self._span_piece(self.text[self.i], parts, in_quotes, in_braces)
        if stop:
            raise BrokenError(f"{stop} is missing")
        return parts

    def _span_piece(self, char: str, parts: list[Part], in_quotes: bool, in_braces: bool) -> None:
        if char == "\\":
            if in_quotes and self.peek(1) not in set('$`"\\\n'):
                parts.append(Text("\\", quoted=True))
                self.i += 1
            else:
                self._escape(parts)
        elif char == "`":
            parts.append(self._backtick(quoted=in_quotes))
        elif char == "$":
            self._dollar(parts, quoted=in_quotes)
        elif char == '"' and (not in_quotes or in_braces):
            self.i += 1
            self._double(parts)
        elif char == "'" and not in_quotes:
            parts.append(Text(self._single(), quoted=True))
        else:
            if char == "'" and in_braces:
                self.budget.ask("a single quote inside an expansion inside double quotes")
            parts.append(Text(char, quoted=in_quotes))
            self.i += 1

    # -- expansions ---------------------------------------------------------------------------------------------

    def _dollar(self, parts: list[Part], *, quoted: bool) -> None:
        following = self.peek(1)
        if following == "'" and not quoted:
            value, self.i = decode(self.text, self.i + 2)
            parts.append(Text(value, quoted=True))
        elif following == '"' and not quoted:
            self.i += 2
            self._double(parts)
        elif following == "(":
            parts.append(self._parenthesis(quoted))
        elif following == "{":
            parts.append(self._braces(quoted))
        elif following == "[":
            parts.append(self._old_arithmetic(quoted))
        else:
            name = _NAME.match(self.text, self.i + 1)
            if name:
                self.i = name.end()
                if _CONTINUED_NAME.match(self.text, self.i) and (name.group()[0].isalpha() or name.group()[0] == "_"):
                    self.budget.ask("a continuation inside an expansion")
                parts.append(Param(name.group(), "", (), quoted, "$" + name.group()))
                return
            if self.text.startswith("\\\n", self.i + 1):
                self.budget.ask("a continuation inside an expansion")
            parts.append(Text("$", quoted=True))
            self.i += 1

    def _parenthesis(self, quoted: bool) -> Sub:
        start = self.i
        self.budget.enter()
        sub = self.arithmetic(start, 3, quoted) if self.at("$((") else None
        if sub is None:
            self.i = start + 2
            program = self.inside(")")
            sub = Sub("command", (program,), quoted, self.text[start : self.i])
        self.budget.leave()
        return sub

    def inside(self, closer: str) -> Program:
        """A program up to and with ``closer``; here-documents that wait outside stay outside."""
        outer, self.pending = self.pending, []
        before = self.i
        program = self.program(frozenset({closer}))
        if not self.at(closer):
            raise BrokenError(f"{closer} is missing")
        if outer and "\n" in self.text[before : self.i]:
            self.budget.ask("a here-document begins inside a substitution of its own line")
        if self.pending:
            self.budget.ask("a here-document is not closed")
        self.i += len(closer)
        self.pending = outer
        return program

    def arithmetic(self, start: int, skip: int, quoted: bool) -> Sub | None:
        """``((…))`` from ``start`` on; None when the parentheses do not close as an arithmetic expression would."""
        self.i = start + skip
        depth = 0
        programs: list[Program] = []
        while not self.done():
            self.budget.spend()
            char = self.text[self.i]
            if char in "()":
                if char == ")" and not depth:
                    break
                depth += 1 if char == "(" else -1
                self.i += 1
            elif char in "\\$`\"'":
                parts: list[Part] = []
                try:
                    self._piece(char, parts)
                except BrokenError:
                    return None
                programs.extend(programs_of(tuple(parts)))
            else:
                self.i += 1
        if not self.at("))"):
            return None
        self.i += 2
        return Sub("arithmetic", tuple(programs), quoted, self.text[start : self.i])

    def _old_arithmetic(self, quoted: bool) -> Sub:
        start = self.i
        self.i += 2
        self.budget.enter()
        programs = programs_of(tuple(self.span("]", in_quotes=True)))
        self.budget.leave()
        self.budget.ask("the old arithmetic form $[…]")
        return Sub("arithmetic", programs, quoted, self.text[start : self.i])

    def _braces(self, quoted: bool) -> Param:
        start = self.i
        self.i += 2
        self.budget.enter()
        name = _BRACE_NAME.match(self.text, self.i)
        plain = name.group() if name else ""
        self.i += len(plain)
        if not plain:
            self.budget.ask("an expansion without a name")
        operator = _EXPANSION.match(self.text, self.i)
        op = operator.group() if operator else ""
        self.i += len(op)
        operand = tuple(self.span("}", in_quotes=quoted, in_braces=True))
        if op == "@P" or plain.startswith("!"):
            self.budget.ask("an expansion that reads another variable or a prompt")
        if operand and not op:
            self.budget.ask("an expansion of a kind that is not known")
        self.budget.leave()
        return Param(plain, op, operand, quoted, self.text[start : self.i])

    def _backtick(self, *, quoted: bool) -> Sub:
        start = self.i
        end = start + 1
        text = self.text
        while end < len(text) and text[end] != "`":
            end += 2 if text[end] == "\\" else 1
        if end >= len(text):
            raise BrokenError("a backtick is not closed")
        special = '$`\\"' if quoted else "$`\\"
        content = re.sub(r"\\([" + re.escape(special) + r"])", r"\1", text[start + 1 : end])
        self.i = end + 1
        return Sub("command", (self._cut(content),), quoted, text[start : self.i])

    def _cut(self, content: str) -> Program:
        self.budget.enter()
        reader = self.nested(content)
        program = reader.program(frozenset())
        if not reader.done():
            raise BrokenError("a substitution does not read as a program")
        self.budget.leave()
        return program

    def _process(self) -> Sub:
        start, self.i = self.i, self.i + 2
        self.budget.enter()
        program = self.inside(")")
        self.budget.leave()
        return Sub("process", (program,), False, self.text[start : self.i])

    # -- here-documents -----------------------------------------------------------------------------------------

    def await_heredoc(self, redirect: Redirect, strip: bool) -> None:
        """Notes a here-document whose text begins after the next newline."""
        delimiter = "".join(part.value if isinstance(part, Text) else part.raw for part in redirect.target.parts)
        redirect.quoted_body = any(isinstance(part, Text) and part.quoted for part in redirect.target.parts)
        self.pending.append((redirect, delimiter, strip))

    def _heredoc(self, redirect: Redirect, delimiter: str, strip: bool) -> None:
        lines: list[str] = []
        closed = False
        while not self.done() and not closed:
            line = self._heredoc_line(joined=not redirect.quoted_body)
            if strip:
                line = line.lstrip("\t")
            closed = line.rstrip("\n") == delimiter
            if not closed:
                lines.append(line)
        if not closed:
            self.budget.ask("a here-document is not closed")
        text = "".join(lines)
        if redirect.quoted_body:
            redirect.body = RawWord((Text(text, quoted=True),), text)
            return
        self.budget.enter()
        reader = self.nested(text)
        depth = self.budget.depth
        try:
            redirect.body = RawWord(tuple(reader.heredoc_parts()), text)
        except BrokenError:
            # bash tells of the fault and goes on with the commands after the here-document
            self.budget.depth = depth
            self.budget.ask("a here-document that does not read")
            redirect.body = RawWord((Text(text, quoted=True),), text)
        self.budget.leave()

    def heredoc_parts(self) -> list[Part]:
        """The whole text as an unquoted here-document: expansions count, quotes do not."""
        return self.span("", in_quotes=True)

    def _heredoc_line(self, *, joined: bool) -> str:
        line = ""
        while not self.done():
            self.budget.spend()
            end = self.text.find("\n", self.i)
            end = len(self.text) if end < 0 else end
            piece = self.text[self.i : end]
            self.i = min(end + 1, len(self.text))
            backslashes = len(piece) - len(piece.rstrip("\\"))
            if not joined or backslashes % 2 == 0 or end >= len(self.text):
                return line + piece + "\n"
            line += piece[:-1]
        return line

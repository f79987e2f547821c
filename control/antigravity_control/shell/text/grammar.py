"""The grammar of bash programs: lists, pipelines, compound commands and functions.

Owns: which words are commands. Raises ``BrokenError`` for a text that bash would refuse or this reader does not know,
and ``TooMuchError`` at its bounds. ``finished`` holds the pipelines of the outermost list that were read before: bash
runs them before it meets the fault.
"""

import re

from .ast import Compound, Node, Pipeline, Program, RawWord, Text
from .budget import BrokenError, Budget
from .scanner import METACHARACTERS
from .simple import FUNCTION_PARENTHESES, SimpleReader

_KEYWORD = re.compile(r"[^\s;&|()<>\"'`$\\]+")
_OPERATORS = (";;&", ";;", ";&", "&&", "||", ";", "&", "\n", ")")
_OPERATOR_STARTS = frozenset(";&|\n)")
_BARE_ENDS = frozenset({"\n", ";", "&", ")"})
"""What may follow a ``time`` or ``!`` that stands alone."""
_CASE_ENDS = frozenset({";;&", ";;", ";&", "esac"})
_OPENERS = frozenset({"if", "for", "while", "until", "case", "select", "function", "{", "[["})


class Reader(SimpleReader):
    def __init__(self, text: str, budget: Budget) -> None:
        super().__init__(text, budget)
        self.finished: list[Pipeline] = []
        self._level = 0

    # -- lists --------------------------------------------------------------------------------------------------

    def program(self, closers: frozenset[str]) -> Program:
        """A list of pipelines up to one of ``closers``, which stays unread."""
        self.budget.enter()
        self._level += 1
        program = Program()
        while True:
            self.gap()
            if self.done() or self._closes(closers):
                break
            pipeline = self._pipeline()
            program.pipelines.append(pipeline)
            if self._level == 1:
                self.finished.append(pipeline)
            if not self._separator(pipeline, closers):
                break
        self._level -= 1
        self.budget.leave()
        return program

    def _separator(self, pipeline: Pipeline, closers: frozenset[str]) -> bool:
        self.blanks()
        if self.done() or self._closes(closers):
            return False
        if self.at("\n"):
            return True
        for operator in ("&&", "||", ";", "&"):
            if self.at(operator) and not self._closes(frozenset(_CASE_ENDS)):
                pipeline.background = operator == "&"
                pipeline.then = operator == "&&"
                self.i += len(operator)
                self._odd_join(operator)
                return True
        raise BrokenError("a separator is missing")

    def _odd_join(self, operator: str) -> None:
        """bash takes a continuation out before it reads operators, so that two of them may become one."""
        if operator in {"&", ";"} and self.at("\\\n"):
            self.budget.ask("a continuation inside an operator")

    def _closes(self, closers: frozenset[str]) -> bool:
        if self.peek() in _OPERATOR_STARTS:
            operator = next((operator for operator in _OPERATORS if self.at(operator)), None)
            if operator is not None:
                return operator in closers
        return bool(closers) and self.keyword() in closers

    def keyword(self) -> str:
        """The unquoted word at the current place, empty when it is quoted, expanded or continued."""
        match = _KEYWORD.match(self.text, self.i)
        if not match:
            return ""
        following = self.text[match.end() : match.end() + 1]
        return match.group() if not following or following in METACHARACTERS else ""

    def take(self, *words: str) -> str:
        """Steps over one of ``words``, which has to come here."""
        self.gap()
        word = self.keyword()
        if word not in words:
            raise BrokenError(f"{words[0]} is missing")
        self.i += len(word)
        return word

    def _pipeline(self) -> Pipeline:
        pipeline = Pipeline()
        while True:
            prefixed = self._prefix()
            if pipeline.stages or not prefixed or not (self.done() or self._closes(_BARE_ENDS)):
                pipeline.stages.append(self.command())
            self.blanks()
            if not self.at("|") or self.at("||"):
                return pipeline
            self.i += 2 if self.at("|&") else 1
            self._odd_join(";")
            self.gap()

    def _prefix(self) -> bool:
        """Steps over ``!`` and ``time``: they change how a pipeline is run, not what is run."""
        before = self.i
        while self.keyword() in {"!", "time"}:
            timed = self.keyword() == "time"
            self.i += len(self.keyword())
            self.blanks()
            while timed and self.keyword() in {"-p", "--"}:
                self.i += 2
                self.blanks()
        return self.i > before

    # -- commands -----------------------------------------------------------------------------------------------

    def command(self) -> Node:
        self.budget.spend()
        start = self.i
        if self.at("("):
            node: Node = self._parentheses()
        else:
            word = self.keyword()
            if word == "coproc":
                return self._coproc()
            if word not in _OPENERS:
                return self.simple()
            node = self._compound(word)
        if isinstance(node, Compound) and node.kind != "function":
            self.redirects(node.redirects)
        node.raw = self.text[start : self.i]
        return node

    def _compound(self, word: str) -> Compound:
        self.i += len(word)
        self.budget.enter()
        if word == "{":
            node = Compound("group", bodies=[self._until("}")])
        elif word == "[[":
            node = self._test()
        elif word == "function":
            node = self._function_keyword()
        elif word == "case":
            node = self._case()
        elif word in {"for", "select"}:
            node = self._for()
        elif word == "if":
            node = self._if()
        else:
            node = Compound("while", bodies=[self._until("do"), self._until("done")])
        self.budget.leave()
        return node

    def _until(self, *closers: str) -> Program:
        program = self.program(frozenset(closers))
        self.take(*closers)
        return program

    def _parentheses(self) -> Compound:
        start = self.i
        self.budget.enter()
        if self.at("(("):
            sub = self.arithmetic(start, 2, quoted=False)
            if sub is not None:
                self.budget.leave()
                return Compound("arithmetic", words=[RawWord((sub,), sub.raw)])
        self.i = start + 1
        program = self.inside_same_line(")")
        self.budget.leave()
        return Compound("subshell", bodies=[program])

    def inside_same_line(self, closer: str) -> Program:
        """Like ``inside``, but here-documents are shared with the line outside: ``(`` is no substitution."""
        program = self.program(frozenset({closer}))
        if not self.at(closer):
            raise BrokenError(f"{closer} is missing")
        self.i += len(closer)
        return program

    def _coproc(self) -> Node:
        self.i += len("coproc")
        self.blanks()
        place, name = self.i, self.keyword()
        if name and name not in _OPENERS:
            self.i += len(name)
            self.blanks()
            if not (self.at("(") or self.keyword() in _OPENERS):
                self.i = place
        return self.command()

    def _if(self) -> Compound:
        bodies = [self._until("then")]
        while True:
            bodies.append(self.program(frozenset({"elif", "else", "fi"})))
            word = self.take("elif", "else", "fi")
            if word == "fi":
                return Compound("if", bodies=bodies)
            bodies.append(self._until("then" if word == "elif" else "fi"))
            if word == "else":
                return Compound("if", bodies=bodies)

    def _for(self) -> Compound:
        self.blanks()
        node = Compound("for")
        if self.at("(("):
            sub = self.arithmetic(self.i, 2, quoted=False)
            if sub is None:
                raise BrokenError("a loop head does not close")
            node.words.append(RawWord((sub,), sub.raw))
        else:
            name = self.word()
            if name is None or not re.fullmatch(r"[A-Za-z_]\w*", name.unquoted() or ""):
                raise BrokenError("a loop has no variable")
            node.name = name.unquoted() or ""
            self.gap()
            node.given = self.keyword() == "in"
            if node.given:
                self.i += 2
                self._words(node.words)
        self.blanks()
        if self.at(";"):
            self.i += 1
        self.gap()
        if self.keyword() == "{":
            self.i += 1
            node.bodies.append(self._until("}"))
        else:
            self.take("do")
            node.bodies.append(self._until("done"))
        return node

    def _words(self, into: list[RawWord]) -> None:
        self.blanks()
        word = self.word()
        while word is not None:
            into.append(word)
            self.blanks()
            word = self.word()

    def _case(self) -> Compound:
        node = Compound("case")
        self.blanks()
        subject = self.word()
        if subject is None:
            raise BrokenError("a case has no subject")
        node.words.append(subject)
        self.take("in")
        self.gap()
        while self.keyword() != "esac":
            self._case_item(node)
            self.gap()
        self.i += len("esac")
        return node

    def _case_item(self, node: Compound) -> None:
        if self.at("("):
            self.i += 1
            self.blanks()
        while True:
            pattern = self.word()
            if pattern is None:
                raise BrokenError("a case has no pattern")
            node.words.append(pattern)
            self.blanks()
            if self.at(")"):
                break
            if not self.at("|"):
                raise BrokenError("a case pattern does not end")
            self.i += 1
            self.blanks()
        self.i += 1
        node.bodies.append(self.program(_CASE_ENDS))
        self.gap()
        operator = next((end for end in (";;&", ";;", ";&") if self.at(end)), "")
        self.i += len(operator)
        if not operator and self.keyword() != "esac":
            raise BrokenError("a case branch does not end")

    def _test(self) -> Compound:
        node = Compound("test")
        pattern = False
        while True:
            self.gap()
            if self.done():
                raise BrokenError("]] is missing")
            if self.keyword() == "]]":
                self.i += 2
                return node
            word = self.word(pattern=pattern)
            if word is None:
                self.i += 1
                pattern = False
                continue
            pattern = word.raw in {"=~", "==", "!=", "="}
            node.words.append(word)

    # -- functions ----------------------------------------------------------------------------------------------

    def _function_keyword(self) -> Compound:
        self.blanks()
        name = self.word()
        if name is None:
            raise BrokenError("a function has no name")
        parentheses = FUNCTION_PARENTHESES.match(self.text, self.i)
        if parentheses:
            self.i = parentheses.end()
        return self.function_body(name)

    def function_body(self, name: RawWord) -> Compound:
        self.gap()
        if not (self.at("(") or self.keyword() in _OPENERS):
            raise BrokenError("a function has no body")
        body = self.command()
        text = "".join(part.value for part in name.parts if isinstance(part, Text))
        return Compound("function", name=text, bodies=[Program([Pipeline([body])])])

"""From the tree to units: every simple command that bash would run, wherever it stands.

Owns: the order of the walk and what the line says about its own shell (variables, folder, functions). Notes on the
budget what is not modelled. Never: parses text itself, except the scripts that a command is given.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from . import setting
from .handed import NOTHING, Opened, Script, Stdin
from .hints import Hints
from .inner import open_command
from .programs import side_doors
from .programs.suspects import LOCAL
from .programs.touches import touches
from .redirections import redirection
from .site import Frame, Site
from .text.ast import Compound, Node, Param, Part, Pipeline, Program, RawWord, Redirect, Simple, Sub, Text
from .text.budget import UNIT_LIMIT, BrokenError, Budget, TooMuchError
from .text.grammar import Reader
from .values import assignments as variables
from .values.arrays import put
from .values.effects import DECLARING, after, assign
from .values.model import SEGMENT_LIMIT, Redirection, Role, Unit, Word, guessed_name
from .values.names import plain
from .values.output import printed
from .values.words import State, script_of, single, words

_TRUSTED_FOLDERS = ("/bin/", "/usr/bin/")
_SAME_SHELL = frozenset({"eval", "source", "."})
"""Commands that see the variables set before them while they read their text."""
_SPLITTING = frozenset({"read", "mapfile", "readarray"})
"""Commands for which ``IFS`` before them only says where to cut."""
_CONDITIONAL = frozenset({"if", "while", "for", "case"})
"""Constructs whose bodies may not run at all."""
_LATER = frozenset({"trap", "alias"})
_LOOP_LIMIT = 8
SUSPECT = "suspect"
"""How a command is reached that a tool may run."""
_LOOPS = frozenset({"for", "while"})


@dataclass(slots=True)
class Walker:
    budget: Budget
    units: list[Unit] = field(default_factory=list)
    functions: dict[str, tuple[Program, str]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Command names as written, also of units that never came to be: for the comparison with the second reader."""
    hints: Hints = field(default_factory=Hints)
    broken: list[str] = field(default_factory=list)
    """Scripts that did not read: for the salvage."""

    # -- structure ----------------------------------------------------------------------------------------------

    def program(self, program: Program, site: Site) -> None:
        self.budget.enter()
        state = site.state
        failed: tuple[str, ...] = ()
        for pipeline in program.pipelines:
            before = state.elsewhere
            self._pipeline(pipeline, site)
            if pipeline.then:
                # what follows runs where the folder was changed; after the chain it may not have been
                failed, state.elsewhere = (*failed, *state.elsewhere), before
            else:
                state.maybe_in(failed)
                failed = ()
        state.maybe_in(failed)
        self.budget.leave()

    def _pipeline(self, pipeline: Pipeline, site: Site) -> None:
        stdin = site.stdin
        alone = len(pipeline.stages) == 1 and not pipeline.background
        for place, stage in enumerate(pipeline.stages):
            # a stage of several, and a job, runs in a shell of its own
            state = site.state if alone else site.state.copy()
            self._node(stage, replace(site, stdin=stdin, state=state))
            if place + 1 < len(pipeline.stages):
                text = printed(stage, site.state, self.budget, stdin.known(), partly=True)
                stdin = Stdin(None if text is None else Word.of(text, literal=False), piped=True)

    def _node(self, node: Node, site: Site) -> None:
        self.budget.spend(10)
        if isinstance(node, Simple):
            self._simple(node, site)
        else:
            self._compound(node, site)

    def _compound(self, node: Compound, site: Site) -> None:
        for word in node.words:
            self._expansions(word.parts, site)
        redirections, stdin = self._redirections(node.redirects, site)
        if redirections:
            self._opens(node.raw[:SEGMENT_LIMIT], (), redirections, site)
        inside = site.inside(node.kind, stdin=stdin)
        if node.kind == "subshell":
            inside = replace(inside, state=site.state.copy())
        before = dict(site.state.variables) if node.kind in _CONDITIONAL else {}
        folder = site.state.cwd
        if node.kind == "function":
            self._function(node, inside)
        elif node.kind == "for" and node.name:
            self._note_names((node.name,))
            self._loop(node, inside)
        else:
            if node.kind == "test":
                setting.note_test(node, self.budget)
            for given in inside.stdin.rounds(node):
                for body in node.bodies:
                    self.program(body, replace(inside, stdin=given))
        if node.kind in _CONDITIONAL:
            site.state.doubt(before)
            if site.state.left(folder) and node.kind in _LOOPS:
                self.budget.ask("a loop that changes the folder")

    def _function(self, node: Compound, site: Site) -> None:
        site.state.functions.add(node.name)
        self.functions[node.name] = (node.bodies[0], node.raw[:SEGMENT_LIMIT])
        state = site.state.copy()
        state.give(())
        state.arguments = True
        state.unsure()
        self.program(node.bodies[0], replace(site, state=state))

    def _loop(self, node: Compound, site: Site) -> None:
        values: list[Word] = [] if node.given else list(site.state.given())
        for raw in node.words:
            values.extend(words(raw, site.state, self.budget))
        known = [word.pieces for word in values if word.known][:_LOOP_LIMIT]
        for pieces in (*known, *([] if known else [None])):
            put(node.name, pieces, site.state)
            for body in node.bodies:
                self.program(body, site)
        if len(known) != len(values):
            put(node.name, None, site.state)

    def _expansions(self, parts: tuple[Part, ...], site: Site) -> None:
        for part in parts:
            if isinstance(part, Sub):
                self.budget.exact(f"{part.kind} {'expansion' if part.kind == 'arithmetic' else 'substitution'}")
                for program in part.programs:
                    self.program(program, site.inside("substitution", stdin=NOTHING, state=site.state.copy()))
            elif isinstance(part, Param):
                if part.op in {"=", ":="}:
                    self._note_names((part.name,))
                if setting.indexed(part):
                    self.budget.exact("arithmetic expansion")
                self._expansions(part.operand, site)

    # -- simple commands ----------------------------------------------------------------------------------------

    def _simple(self, node: Simple, site: Site) -> None:
        for assignment in node.assignments:
            for value in assignment.elements or (assignment.value,):
                self._expansions(value.parts, site)
            self._variable(assignment.name, single(assignment.value, site.state, self.budget), site)
        argv: list[Word] = []
        for raw in node.words:
            self._expansions(raw.parts, site)
            argv.extend(words(raw, site.state, self.budget))
        self._note_name(node.words)
        redirections, stdin = self._redirections(node.redirects, site)
        frame = Frame(
            replace(site, stdin=stdin),
            node.raw[:SEGMENT_LIMIT],
            tuple(item.name for item in node.assignments),
            redirections,
        )
        for each in redirections:
            if each.kind in {"write", "append"}:
                self.hints.file(each, partial(printed, node, site.state, self.budget))
        if argv:
            self.run(argv, self._set_before(node, argv, frame) if node.assignments else frame)
            after(argv, site.state, stdin.known())
            return
        for name in frame.assignments:
            if not variables.is_own(name):
                self.budget.exact(variables.reason(name))
        assign(node.assignments, site.state, self.budget)
        if redirections or node.words:
            self._opens(frame.text, frame.assignments, redirections, site)
        if node.words:
            self.budget.ask("a command name that is not literal")

    def _set_before(self, node: Simple, argv: list[Word], frame: Frame) -> Frame:
        """The assignments before a command: they hold for it alone, but for a few of the shell's own."""
        reads = argv[0].text in _SPLITTING
        self._note_assignments(tuple(name for name in frame.assignments if not (reads and name == "IFS")))
        own = next((word.text for word in argv if word.text not in {"command", "builtin"}), "")
        if own not in _SAME_SHELL:
            frame = replace(frame, site=replace(frame.site, state=frame.site.state.copy()))
        assign(node.assignments, frame.site.state, self.budget)
        return frame

    def _note_name(self, raws: list[RawWord]) -> None:
        for raw in raws[:2]:
            self.names.add("".join(part.value for part in raw.parts if isinstance(part, Text)))

    def _note_assignments(self, names: tuple[str, ...]) -> None:
        for name in names:
            if not variables.is_neutral(name):
                self.budget.exact(variables.reason(name))

    def _note_names(self, names: Iterable[str]) -> None:
        """Variables that are set without an assignment: most of them are the line's own."""
        self._note_assignments(tuple(name for name in names if variables.decides(name)))

    def _variable(self, name: str, value: Word, site: Site) -> None:
        """Values that some program will read as a script: looked at as a guess."""
        guess = site.inside(f"variable {name}", role="guess", stdin=NOTHING)
        self.hints.variable(name, value.text, site.state.cwd)
        if name in variables.SCRIPTS and value.known:
            self._script(Script(value, f"variable {name}", role="guess"), guess, quiet=True)
        elif name in variables.PROMPTS:
            reader = Reader(value.text, self.budget)
            try:
                self._expansions(tuple(reader.heredoc_parts()), guess)
            except BrokenError:
                self.budget.ask(f"the value of {name}")

    def run(self, argv: list[Word], frame: Frame) -> None:
        """One command with its words: the unit it is, and everything it hands over."""
        self.budget.spend(100 + 12 * len(argv))
        self.budget.enter()
        first = argv[0]
        guess = guessed_name(first)
        if not first.literal:
            self.budget.exact("a command name that is not literal")
            self.budget.ask("a command name that is not literal")
        if plain(first.text) != first.text or not first.text.isprintable():
            self.budget.ask("a command name with characters that are not seen")
        opened = open_command(guess, argv, frame.site.stdin) if guess is not None else Opened()
        self._notes(opened)
        self._note_exports(guess, argv, frame.site)
        if guess in setting.COMMANDS:
            self._note_names(setting.names(guess, argv))
            why = setting.computes(guess, argv)
            if why is not None:
                self.budget.exact(why)
        extra = side_doors.needs(guess, argv) if guess is not None else ()
        for requirement in extra:
            if requirement.action == "command" or requirement.target is None:
                self.budget.exact(requirement.reason)
        self._emit(
            Unit(
                argv=tuple(argv),
                name=guess if first.literal else None,
                text=frame.text,
                via=frame.site.via,
                assignments=frame.assignments,
                redirections=frame.redirections,
                extra=extra,
                touches=touches(guess, argv) if guess is not None else (),
                role=self._role(first, opened, frame.site),
                cwd=frame.site.state.cwd,
                elsewhere=frame.site.state.elsewhere,
            )
        )
        if guess is not None:
            self.hints.command(guess, argv, frame.site.stdin.text, frame.site.state.cwd)
            if guess in LOCAL:
                self.budget.exact(f"{guess} runs a command")
        self._follow(opened, frame)
        self._call(guess, argv, frame.site)
        self.budget.leave()

    def _call(self, name: str | None, argv: list[Word], site: Site) -> None:
        """A function of the line: its body once more, as a guess, with the arguments of this call."""
        if name is None or name not in self.functions:
            return
        body, _ = self.functions[name]
        # Once for each definition: one that calls itself comes to the same, one that takes its name is another.
        how = f"call {name} {id(body)}"
        if how in site.via:
            return
        state = site.state.copy()
        state.give(tuple(argv[1:]))
        self.program(body, site.inside(how, role="guess", state=state))
        site.state.take(state)

    def _role(self, first: Word, opened: Opened, site: Site) -> Role:
        """A wrapper is passed over only where its name can mean nothing else than the system's own program."""
        trusted = "/" not in first.text or first.text.rpartition("/")[0] + "/" in _TRUSTED_FOLDERS
        own = first.text in site.state.functions
        if opened.transparent and opened.commands and first.literal and trusted and not own and site.role == "command":
            return "wrapper"
        return site.role

    def _notes(self, opened: Opened) -> None:
        for reason in opened.ask:
            self.budget.ask(reason)
        for reason in opened.exact:
            self.budget.exact(reason)
        self._note_assignments(tuple(opened.assignments))

    def _note_exports(self, name: str | None, argv: list[Word], site: Site) -> None:
        """Variables that later commands inherit."""
        if name in DECLARING:
            words = [word.text.partition("=") for word in argv[1:] if not word.text.startswith("-")]
            for word, _, value in words:
                self.hints.variable(word, value, site.state.cwd)
            self._note_assignments(tuple(word for word, equals, _ in words if equals or name == "export"))

    def _follow(self, opened: Opened, frame: Frame) -> None:
        state = frame.site.state
        if opened.cwd is not None:
            state = state.copy()
            state.cwd, state.elsewhere = opened.cwd, ()
        for name, pieces in opened.values.items():
            self.hints.variable(name, "".join(piece.text for piece in pieces or ()), state.cwd)
        if opened.values:
            state = state.copy()
            state.variables.update(opened.values)
        for command, via, role in opened.commands:
            role = "guess" if frame.site.role == "guess" else role
            site = frame.site.inside(via, role=role, state=state)
            self.run(command, Frame(site, frame.text, (*frame.assignments, *opened.assignments)))
        for script in opened.scripts:
            role = "guess" if frame.site.role == "guess" else script.role
            stdin = NOTHING if script.via.endswith("<<") else frame.site.stdin
            self._script(script, frame.site.inside(script.via, role=role, state=state, stdin=stdin))

    # -- scripts ------------------------------------------------------------------------------------------------

    def _script(self, script: Script, site: Site, *, quiet: bool = False) -> None:
        text = self._script_text(script, site)
        if text is None:
            self.budget.ask("a script that is not literal")
            return
        if not script.bash or ("$'" in text and script.via.split(" ")[0] not in {"bash", "eval", "trap", "source"}):
            self.budget.ask("a script that bash does not read")
        state = site.state if script.via == "eval" else site.state.copy()
        if script.via != "eval":
            state.give(script.arguments)
            if script.zero is not None:
                state.variables["0"] = script.zero.pieces
        if script.via in _LATER:
            state.unsure()
        depth = self.budget.depth
        reader = Reader(text, self.budget)
        try:
            program = reader.program(frozenset())
            if not reader.done():
                raise BrokenError("a script does not end where it should")
            if reader.pending:
                self.budget.ask("a here-document is not closed")
        except BrokenError:
            self.budget.depth = depth
            program = Program(reader.finished)
            if not quiet:
                self.budget.ask("a script that does not read")
                self.broken.append(text)
        self.program(program, replace(site, state=state))

    def _script_text(self, script: Script, site: Site) -> str | None:
        word = script.text
        if script.via.endswith("<()"):
            self.budget.ask("a script that a substitution prints")
            reader = Reader(word.text[2:-1], self.budget)
            try:
                return site.state.output(reader.program(frozenset()), site.state)
            except BrokenError:
                return None
        if not word.literal and script.role != "guess":
            self.budget.ask("a script that is not literal")
        return script_of(word)

    # -- redirections -------------------------------------------------------------------------------------------

    def _redirections(self, redirects: list[Redirect], site: Site) -> tuple[tuple[Redirection, ...], Stdin]:
        found: list[Redirection] = []
        stdin = site.stdin
        for redirect in redirects:
            self._expansions(redirect.target.parts, site)
            if redirect.body is not None:
                self._expansions(redirect.body.parts, site)
            one, given = redirection(redirect, site.state, self.budget)
            found.append(one)
            if given is not None:
                stdin = given
        return tuple(found), stdin

    def suspect(self, words: Sequence[Word], state: State) -> None:
        """A command that some tool may run."""
        site = Site(state, via=(SUSPECT,), role="guess")
        self.run(list(words), Frame(site, " ".join(word.raw for word in words)[:SEGMENT_LIMIT]))

    def _opens(self, text: str, names: tuple[str, ...], redirections: tuple[Redirection, ...], site: Site) -> None:
        """Redirections that belong to no command."""
        folder, elsewhere = site.state.cwd, site.state.elsewhere
        self._emit(Unit((), "", text, site.via, names, redirections, role="wrapper", cwd=folder, elsewhere=elsewhere))

    def _emit(self, unit: Unit) -> None:
        if len(self.units) >= UNIT_LIMIT:
            raise TooMuchError("the line holds too many commands")
        self.units.append(unit)

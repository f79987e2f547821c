"""The script: what a YAML file may say, and how it is checked.

Owns the format and its error messages (file, rule number, field). Immutable once loaded: how often a rule has been used
is the server's business. Never executes anything of the file: patterns are plain text or regular expressions, templates
are plain replacement.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

_QUOTED = re.compile(r"\{\{\s*match\.(\w+)\s*\}\}")

#: A script is written by hand; what is larger is not a script.
MAX_SCRIPT_BYTES = 8 * 1024 * 1024


class ScriptError(ValueError):
    """A script that cannot be used. The message names the file, the rule (counted from 1) and the field."""


class Regex(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern that is searched for, in the syntax of Python's `re`."""

    regex: str


Pattern = str | Regex


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions of a rule; all that are given must hold.

    user: text of the last user message. Plain text is found anywhere in it, upper and lower case alike.
    result: text of the tool results after that message, joined by line ends.
    Named groups of a `regex` in either can be quoted by the rule's answer as `{{match.NAME}}`.
    tool: a tool of that name has answered since the last user message.
    round: how many model messages with calls came since the last user message; 0 is the first answer.
    model: the model that was asked.
    images: how many images the last user message carries.
    """

    user: Pattern | None = None
    result: Pattern | None = None
    tool: str | None = None
    round: int | None = None
    model: str | None = None
    images: int | None = None


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tool call. `name` is the tool's own name; the declared function that exports it is looked up.

    declared: false sends `name` as it stands, to try what happens when a model calls a tool that does not exist.
    """

    name: str
    arguments: dict[str, Any] = {}
    declared: bool = True


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Token counts that the answer reports."""

    input: int = 10
    output: int = 5
    thoughts: int = 0
    cached: int = 0


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule: when it answers, and with what.

    times: how often it may answer; afterwards it is passed over. 0 is without limit.
    thoughts, text: one piece, or a list of pieces that are streamed one by one.
    delay_ms: wait before the first byte. pause_ms: wait between pieces.
    http_error: status to answer with; retry_delay_s: the delay that a 429 or 503 asks for.
    garbage: broken JSON in the stream. empty: a stream that says nothing. hang: no answer until the caller gives up.
    finish: the finish reason that is reported.
    """

    when: When = When()
    times: int = 0
    thoughts: str | list[str] = []
    text: str | list[str] = []
    calls: list[Call] = []
    delay_ms: int = 0
    pause_ms: int = 0
    http_error: int = 0
    retry_delay_s: float = 0
    garbage: bool = False
    empty: bool = False
    hang: bool = False
    finish: str = "STOP"
    usage: Usage = Usage()

    @property
    def groups(self) -> set[str]:
        """Names that `{{match.NAME}}` may quote."""
        patterns = (self.when.user, self.when.result)
        return {name for one in patterns if isinstance(one, Regex) for name in re.compile(one.regex).groupindex}

    @property
    def thought_pieces(self) -> list[str]:
        return [self.thoughts] if isinstance(self.thoughts, str) else list(self.thoughts)

    @property
    def text_pieces(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else list(self.text)


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script. models: the catalogue that is listed, the first is the default."""

    rules: list[Rule]
    models: list[str] = msgspec.field(default_factory=lambda: ["scripted"])


def load_script(path: str | Path) -> Script:
    """Reads and checks a script. Raises `ScriptError`."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise ScriptError(f"{path}: larger than {MAX_SCRIPT_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScriptError(f"{path}: cannot be read ({error.strerror or 'I/O error'})") from None
    except UnicodeDecodeError:
        raise ScriptError(f"{path}: is not UTF-8 text") from None
    return parse_script(text, source=str(path))


def parse_script(text: str, *, source: str = "script") -> Script:
    """Checks the text of a script; `source` is how error messages call it. Raises `ScriptError`."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ScriptError(f"{source}{where}: is not valid YAML") from None
    try:
        script = msgspec.convert(raw, Script)
    except msgspec.ValidationError as error:
        raise ScriptError(_describe(source, str(error))) from None
    if not script.rules:
        raise ScriptError(f"{source}: `rules` is empty; at least one rule is needed")
    if not script.models or not all(script.models):
        raise ScriptError(f"{source}: `models` must name at least one model, each with a name")
    for number, rule in enumerate(script.rules, 1):
        _check_rule(f"{source}, rule {number}", rule)
    return script


def _describe(source: str, message: str) -> str:
    """msgspec's `… - at `$.rules[2].calls[0].name`` → file, rule 3, field calls[0].name."""
    what, _, path = message.partition(" - at `")
    path = path.rstrip("`").removeprefix("$").removeprefix(".")
    if not path:
        return f"{source}: {what}"
    if found := re.match(r"rules\[(\d+)\]\.?(.*)", path):
        field = f", field `{found[2]}`" if found[2] else ""
        return f"{source}, rule {int(found[1]) + 1}{field}: {what}"
    return f"{source}, field `{path}`: {what}"


def _check_rule(where: str, rule: Rule) -> None:
    for field in ("user", "result"):
        pattern = getattr(rule.when, field)
        if isinstance(pattern, Regex):
            try:
                re.compile(pattern.regex)
            except re.error as error:
                raise ScriptError(f"{where}, field `when.{field}.regex`: {error}") from None
    for field in ("times", "delay_ms", "pause_ms", "retry_delay_s"):
        if getattr(rule, field) < 0:
            raise ScriptError(f"{where}, field `{field}`: must not be negative")
    if rule.http_error and not 400 <= rule.http_error <= 599:
        raise ScriptError(f"{where}, field `http_error`: must be a status from 400 to 599")
    for index, call in enumerate(rule.calls):
        if not call.name:
            raise ScriptError(f"{where}, field `calls[{index}].name`: must not be empty")
    _check_quotes(where, rule)
    answers = bool(rule.thoughts or rule.text or rule.calls)
    faults = sum((bool(rule.http_error), rule.garbage, rule.empty, rule.hang))
    if faults > 1 or (faults and answers and not rule.garbage):
        raise ScriptError(
            f"{where}: give one of `http_error`, `garbage`, `empty` and `hang`, and an answer only beside `garbage`"
        )
    if not faults and not answers:
        raise ScriptError(f"{where}: says nothing; give `text`, `thoughts`, `calls` or a fault (`empty: true` is one)")


def _check_quotes(where: str, rule: Rule) -> None:
    for quoted in _QUOTED.findall(str([rule.thoughts, rule.text, [call.arguments for call in rule.calls]])):
        if quoted not in rule.groups:
            raise ScriptError(f"{where}: `{{{{match.{quoted}}}}}` names no group of a `regex` in its `when`")


def matches(pattern: Pattern | None, text: str) -> bool:
    """Whether a condition on text holds; no condition always does."""
    if pattern is None:
        return True
    if isinstance(pattern, Regex):
        return re.search(pattern.regex, text) is not None
    return pattern.lower() in text.lower()

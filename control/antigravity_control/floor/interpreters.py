"""Programs of other languages that a line hands to an interpreter: a shell command inside them, a tree they delete.

Owns: a narrow look. Only calls that say all in literals count; a program that merely mentions such a command passes.
Pure.
"""

import re
from collections.abc import Iterator

from ..shell import Unit

_TEXT = r"[rbuf]?(?P<{0}>['\"])(?P<{1}>(?:\\.|(?!(?P={0})).){{1,300}})(?P={0})"
_SHELL_CALL = re.compile(
    r"(?<![\w.])(?:(?:os|subprocess|commands|child_process|Kernel|IO|Process|cp|sp)\s*\.\s*)?"
    r"(?:require\(['\"](?:node:)?child_process['\"]\)\.)?"
    r"(?:system|popen\d?|spawn|exec|execSync|spawnSync|run|call|check_call|check_output|Popen|getoutput|execute"
    r"|shell_exec|passthru|qx)\s*\(?\s*" + _TEXT.format("q", "text")
)
_BACKTICKS = re.compile(r"`([^`\n]{1,300})`|\bqx\s*[{(/|!]([^})/|!\n]{1,300})")
_LIST_CALL = re.compile(
    r"(?:run|call|check_call|check_output|Popen|system|spawn|spawnSync|execFile|execFileSync|exec\w*)\s*\(?\s*"
    r"(?P<list>\[?\s*(?:['\"][^'\"\n]{0,100}['\"]\s*,?\s*\[?\s*){2,8})"
)
_WORD = re.compile(r"['\"]([^'\"\n]*)['\"]")
_TREE = re.compile(
    r"(?:\brmtree|\bremove_tree|\brm_rf?|\bremove_dir_all|\brimraf(?:\.sync)?|\brmSync|\brmdirSync|\brm|\bremove_entry)"
    r"\s*\(?\s*(?P<path>[^,;)\n]{1,120})"
)
_HOMES = re.compile(
    r"expanduser|Path\.home\(\)|homedir\(\)|Dir\.home|ENV(?:\[|\{)['\"]?HOME|environ.{0,8}HOME|env\.HOME"
)
_FORKS = re.compile(
    r"\bfork\b ?(?:\( ?\))? ?\bwhile\b|\bwhile\b ?(?:\( ?(?:1|true) ?\)|1|True|true) ?[:{]? ?"
    r"(?:[\w.]{1,16}\(['\"]os['\"]\)\.|os\.|Process\.)?fork\b|\bloop ?(?:\{|do\b) ?(?:Process\.)?fork\b"
)
"""Copies without end; blanks have become one each before."""
_LANGUAGES = re.compile(
    r"(?P<name>python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|raku|[mgn]?awk|original-awk)[\d.]*"
)
_CODE_OPTIONS = {
    "python": "c", "pypy": "c", "perl": "eE", "raku": "e", "ruby": "e", "node": "ep", "nodejs": "ep", "deno": "",
    "bun": "e", "php": "rBR", "lua": "e", "luajit": "e",
}  # fmt: skip
_LONG_CODE = re.compile(r"--(?:eval|print|run)(?:=(.*))?", re.DOTALL)
_DOCUMENT = re.compile(r"<<-?\s*(['\"\\]?)(\w+)['\"]?")
_BLANKS = re.compile(r"\s+")
_CODE_LIMIT = 8_192


def commands(unit: Unit, line: str) -> Iterator[str]:
    """Command lines that the code of ``unit`` runs, and deletions as the ``rm`` that would do the same. ``line``: all
    of the text, for a here-document."""
    for code in _code(unit, line):
        yield from _in_code(_BLANKS.sub(_one_blank, code))


def forks(unit: Unit, line: str) -> bool:
    """Whether the code of ``unit`` starts copies of itself without end."""
    return any(_FORKS.search(_BLANKS.sub(" ", code)) for code in _code(unit, line))


def _one_blank(match: re.Match[str]) -> str:
    return "\n" if "\n" in match.group() else " "


def _code(unit: Unit, line: str) -> Iterator[str]:
    match = _LANGUAGES.fullmatch(unit.guess or "")
    if match is None:
        return
    name = match.group("name")
    if name.endswith("awk"):
        yield from (word.text[:_CODE_LIMIT] for word in unit.argv[1:] if "system" in word.text)
        return
    letters = _CODE_OPTIONS[name]
    operands = False
    for place, word in enumerate(unit.argv[1:], start=1):
        following = unit.argv[place + 1].text if place + 1 < len(unit.argv) else ""
        long = _LONG_CODE.fullmatch(word.text)
        if long or (name == "deno" and word.text == "eval"):
            yield (long.group(1) if long and long.group(1) else following)[:_CODE_LIMIT]
            operands = True
        elif letters and re.fullmatch(rf"-[A-Za-z]{{0,8}}[{letters}]", word.text):
            yield following[:_CODE_LIMIT]
            operands = True
        operands = operands or not word.text.startswith("-")
    if not operands:
        yield from _document(unit, line)


def _document(unit: Unit, line: str) -> Iterator[str]:
    """The here-document that stands at the input of ``unit``."""
    place = line.find(unit.text)
    mark = _DOCUMENT.search(unit.text)
    start = line.find("\n", place) if place >= 0 else -1
    if mark is None or start < 0:
        return
    end = re.search(rf"^\t*{re.escape(mark.group(2))}$", line[start + 1 :], re.MULTILINE)
    body = line[start + 1 :] if end is None else line[start + 1 : start + 1 + end.start()]
    yield body[:_CODE_LIMIT]


def _in_code(code: str) -> Iterator[str]:
    for match in _SHELL_CALL.finditer(code):
        yield re.sub(r"\\(['\"])", r"\1", match.group("text"))
    for match in _BACKTICKS.finditer(code):
        yield match.group(1) or match.group(2)
    for match in _LIST_CALL.finditer(code):
        yield " ".join(_WORD.findall(match.group("list")))
    for match in _TREE.finditer(code):
        literal = _WORD.fullmatch(match.group("path").strip())
        if literal and literal.group(1):
            yield f"rm -r '{literal.group(1)}'"
        elif _HOMES.search(match.group("path")) and "/" not in match.group("path"):
            yield "rm -r ~"

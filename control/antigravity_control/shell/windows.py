"""Lines of ``cmd`` and PowerShell: recognised, never read as a grammar.

Owns: the signs by which such a line is told from bash, and a careful cut into commands for the floor. Such a line is
always asked about.
"""

import re
from typing import Literal

_CMDLET = re.compile(
    r"(?:^|[;|({])\s*(?:Get|Set|New|Remove|Clear|Stop|Start|Restart|Invoke|Format|Import|Export|Out|Add|Copy|Move"
    r"|Rename|Test|Select|Where|ForEach|Write|Read|Enable|Disable|Initialize)-[A-Z][A-Za-z]+\b"
)
_POWERSHELL = re.compile(r"(?i)\$env:[a-z]|-ErrorAction\b|\[System\.")
_CMD = re.compile(
    r"(?i)(?:^|[&|(])\s*(?:(?:del|erase|rd|rmdir|copy|xcopy|move|dir|type|attrib)\s+(?:\S+\s+)*?/[a-z]{1,2}\b(?![/.])"
    r"|(?:xcopy|robocopy|format|taskkill)\s+(?:\S+\s+)*?/[a-z]+\b(?!/))"
    r"|^\s*if\s+(?:not\s+)?exist\s|(?:^|[&|(])\s*\"?%\w+%|^\s*[A-Za-z]:\\|\s\^\s*$"
    r"|%(?:(?:home|system|user|process|number_of_process|program|common|allusers|computer|local|logon|session)\w*"
    r"|appdata|comspec|errorlevel|os|path|pathext|prompt|public|random|te?mp|windir|psmodulepath)%"
)
_FIELD = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s\"']+")
_SHELL_CALL = re.compile(
    r"(?i)\b(?:cmd|powershell|pwsh)(?:\.exe)?\b(?:\s+[-/]\w+(?:\s+[\w.]+)?){0,12}?\s+(?:[-/](?:c|k|command|encodedcommand))\s+(?P<rest>.+)",
    re.DOTALL,
)
_CALLED = re.compile(r"(?i)\s*(?P<name>cmd|powershell|pwsh)(?:\.exe)?\s+[-/]")
_LIMIT = 65_536
_DEPTH = 8
"""How many shells within each other are looked into."""
_CONDITIONS = {"if": 1, "not": 1, "exist": 2}
"""Words before a command, each with how many fields they take."""
_EVALUATING = frozenset({"iex", "invoke-expression", "powershell", "powershell.exe", "pwsh", "pwsh.exe"})


def dialect_of(text: str) -> Literal["cmd", "powershell"] | None:
    """The Windows shell that ``text`` is written for, None when nothing says so."""
    head = text[:_LIMIT]
    called = _CALLED.match(head)
    if called:
        return "cmd" if called.group("name").lower() == "cmd" else "powershell"
    if _CMDLET.search(head) or _POWERSHELL.search(head):
        return "powershell"
    if _CMD.search(head[:4096]):
        return "cmd"
    return None


def commands(text: str, depth: int = _DEPTH) -> list[list[str]]:
    """The commands of a line, each as its fields without quotes, cut at separators outside quotes."""
    found: list[list[str]] = []
    for segment in _segments(text[:_LIMIT]):
        fields = [field.strip("\"'") for field in _FIELD.findall(segment)][:256]
        while fields and (fields[0] in {"&", ".", "@", "call", "start", "("} or fields[0].lower() in _CONDITIONS):
            fields = fields[_CONDITIONS.get(fields[0].lower(), 1) :]
        if depth and len(fields) > 1 and fields[0].lower() in _EVALUATING:
            found.extend(commands(" ".join(fields[1:]).lstrip("-"), depth - 1))
        if fields:
            found.append(fields)
    call = _SHELL_CALL.search(text[:_LIMIT])
    if depth and call and call.group("rest") != text:
        found.extend(commands(call.group("rest").strip().strip("\"'"), depth - 1))
    return found[:512]


def _segments(text: str) -> list[str]:
    segments: list[str] = []
    start, quote = 0, ""
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in ";|&\n{}()":
            segments.append(text[start:place])
            start = place + 1
    segments.append(text[start:])
    return segments

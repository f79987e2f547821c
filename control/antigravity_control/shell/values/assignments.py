"""Variables before a command: which of them leave the command what it is.

Owns: the list of neutral names. Every other assignment switches prefix matching off; those that run something are
named, so that the reason says so.
"""

import re

_NEUTRAL = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|CLICOLOR(?:_FORCE)?|FORCE_COLOR|COLORTERM|CI|DEBUG|VERBOSE"
    r"|NODE_ENV|RAILS_ENV|RACK_ENV|APP_ENV|FLASK_ENV|DJANGO_DEBUG|RUST_BACKTRACE|RUST_LOG|GOOS|GOARCH|CGO_ENABLED"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|PYTHONIOENCODING|PYTHONUTF8|DEBIAN_FRONTEND"
    r"|SOURCE_DATE_EPOCH|PORT|HOST|LOG_LEVEL|SEED|DOCKER_BUILDKIT|BUILDKIT_PROGRESS|CARGO_TERM_COLOR|PIP_NO_INPUT"
    r"|PIP_DISABLE_PIP_VERSION_CHECK|DO_NOT_TRACK|NEXT_TELEMETRY_DISABLED|HOMEBREW_NO_AUTO_UPDATE|GIT_TERMINAL_PROMPT"
    r"|GIT_OPTIONAL_LOCKS|NODE_NO_WARNINGS|TIMEOUT|FOO|BAR|BAZ|[A-Z]\d?"
)
_OWN = re.compile(
    r"(?:[A-Z]+_)?(?:URL|NAME|NAMES|COUNT|STATUS|CODE|RC|RESULT|OUTPUT|MSG|MESSAGE|BRANCH|COMMIT|TIMESTAMP|RESP|RESPONSE"
    r"|BODY|IDX|INDEX|LINE|ITEM|ITEMS|EXPECTED|ACTUAL|ID|IDS|PID|PIDS)"
    r"|(?:(?:OUT|OUTPUT|IN|INPUT|SRC|LOG|BUILD|DIST|DATA|TEST|ROOT|BASE|WORK|BACKUP)_)?(?:FILE|FILES|FILENAME|DIR|DIRS)"
    r"|BASE|OUT|SRC|DST|DEST|TOTAL|LOG|LOGS|PATTERN|QUERY|RED|GREEN|YELLOW|BLUE|NC|BOLD|RESET|FAILED|PASSED"
)
"""Names that scripts use for themselves and programs do not read."""
RUNNING = frozenset(
    {"PAGER", "MANPAGER", "GIT_PAGER", "GH_PAGER", "AWS_PAGER", "BAT_PAGER", "SYSTEMD_PAGER", "LESSOPEN",
     "LESSCLOSE", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "FCEDIT", "BROWSER", "SHELL", "GIT_SSH",
     "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND",
     "RSYNC_RSH", "CVS_RSH", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "BASH_ENV", "ENV", "TAR_OPTIONS",
     "MAKEFLAGS", "RSYNC_CONNECT_PROG", "RIPGREP_CONFIG_PATH", "FZF_DEFAULT_COMMAND", "NODE_OPTIONS", "PERL5OPT",
     "RUBYOPT", "PYTHONSTARTUP"}
)  # fmt: skip
SCRIPTS = frozenset(
    {
        "PAGER",
        "MANPAGER",
        "GIT_PAGER",
        "EDITOR",
        "VISUAL",
        "GIT_EDITOR",
        "GIT_SSH_COMMAND",
        "PROMPT_COMMAND",
        "LESSOPEN",
    }
)
"""Variables whose value is text for a shell: read like one, as a guess."""
PROMPTS = frozenset({"PS0", "PS1", "PS2", "PS4"})


_DECIDING = re.compile(
    r"(?:LD|DYLD|GIT|BASH|PYTHON|NODE|NPM|npm|PERL|RUBY|JAVA|XDG|LUA|PHP|SSH|DOCKER|MALLOC|GLIBC)\w*"
    r"|PATH|HOME|IFS|ENV|CDPATH|OLDPWD|PWD|SHELL|SHELLOPTS|TMPDIR|CC|CXX|CPP|LD|AR|AS|MAKE|TERMINFO|GCONV_PATH|LOCPATH"
)


def is_neutral(name: str) -> bool:
    """Whether setting ``name`` changes neither what runs nor where it reads and writes."""
    return _NEUTRAL.fullmatch(name) is not None


def is_own(name: str) -> bool:
    """Whether a name that is set by itself, and not for a command, is most probably the line's own: programs see it
    only when the environment has it already."""
    return name.islower() or (not decides(name) and (is_neutral(name) or _OWN.fullmatch(name) is not None))


def decides(name: str) -> bool:
    """Whether ``name`` is known to decide what runs or where it looks: for the many ways to set a variable that are no
    assignment, and that mostly set one of the line's own."""
    return name in RUNNING or _DECIDING.fullmatch(name) is not None


def reason(name: str) -> str:
    if name in RUNNING or name.startswith(("LD_", "DYLD_", "GIT_CONFIG", "BASH_FUNC")):
        return f"the variable {name} decides what runs"
    return f"the variable {name} may change what the command does"

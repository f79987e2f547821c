r"""The table of detectors: what a secret looks like.

Owns: :data:`DETECTORS`. A detector is tried only where one of its words stands; its pattern begins there. What belongs
to the secret in front of the word is a pattern of its own, for the reversed text. A check says what patterns cannot.
Where only a part of a match is secret, it is the group ``secret``.
Patterns are linear: every repetition is bounded, and what one try has passed over no other try begins in, but for a
small constant. Facts: the vendors' documentation of their key formats.
What has no form of its own (a hash, a UUID, any long word) is found only beside a name that says what it is.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: Characters in front of a word that are looked at.
BEFORE: Final = 32_768
#: What an end of a word may look like to a machine: a JSON or Python text has escapes instead of line breaks and signs,
#: an address has its own; a line of a difference begins with its sign.
_ESCAPED: Final = r"(?<=\\[nrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})|(?<=%[0-9A-Fa-f]{2})|(?<=(?m:^)[+-])"
_ESCAPED_BACK: Final = r"(?=[nrt]\\)|(?=[0-9A-Fa-f]{4}u\\)|(?=[0-9A-Fa-f]{2}x\\)|(?=[0-9A-Fa-f]{2}%)|(?=[+-](?:\n|\Z))"
#: Where a token may begin and end: not within a longer word.
_LEFT: Final = rf"(?:(?<![A-Za-z0-9_-])|{_ESCAPED})"
_LEFT_BACK: Final = rf"(?:(?![A-Za-z0-9_-])|{_ESCAPED_BACK})"
_RIGHT: Final = r"(?![A-Za-z0-9_-])"
#: For words that base64 is made of as well, as in an image: not within that either.
_LEFT_64: Final = rf"(?:(?<![A-Za-z0-9_+/-])|{_ESCAPED})"
_RIGHT_64: Final = r"(?![A-Za-z0-9_+/-])"


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of secret.

    :param words: what its pattern may begin with; lower case and compared so where ``folded``.
    :param before: a pattern for the reversed text in front of the word, without which there is no secret.
    :param check: says of the secret whether it is one.
    """

    kind: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    folded: bool = False
    before: re.Pattern[str] | None = None
    check: Callable[[str], bool] | None = None


def _token(kind: str, words: tuple[str, ...] | str, body: str) -> Detector:
    """A token of a vendor's form, standing alone."""
    return Detector(kind, (words,) if isinstance(words, str) else words, re.compile(f"{_LEFT}(?:{body}){_RIGHT}"))


def _token_64(kind: str, words: tuple[str, ...], body: str, check: Callable[[str], bool] | None = None) -> Detector:
    """The same for one that could stand in base64 by chance."""
    return Detector(kind, words, re.compile(f"{_LEFT_64}(?:{body}){_RIGHT_64}"), check=check)


# ---- PEM ------------------------------------------------------------------------------------------------------------
#: What may stand before a line of a key: line breaks, real or escaped (more than once, too), and what quoting,
#: numbering and a search in files add.
_GAP: Final = r"(?:\\{1,4}[nrt]|[\s\"'+,>|#*-]){1,24}(?:[\w./@-]{1,200}[:-](?=\d))?(?:\d{1,7}[\s:|-]{1,4})?"
_KEY_LINES: Final = rf"(?:(?:{_GAP})?[A-Za-z0-9+/=]{{16,200}}){{1,400}}"
_HEADERS: Final = r"(?:(?:\\{1,4}[nr]|\s){1,4}[A-Za-z-]{3,24}: [^\n\\]{0,200}){0,6}"
_LABEL: Final = r"(?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
#: With or without its end: long output is cut.
_PEM: Final = re.compile(
    rf"-----BEGIN {_LABEL}{_HEADERS}{_KEY_LINES}(?:(?:{_GAP})?[A-Za-z0-9+/=]{{0,76}}{_GAP}-----END {_LABEL})?"
)
#: An end whose beginning was cut away, and the reversed lines before it. The last line may be a short one.
_PEM_END: Final = re.compile(rf"-----END {_LABEL}")
_GAP_BACK: Final = r"[\s\"'+,>|#*-]{0,24}(?:[nrt]\\{1,4}){0,3}"
_LINES_BACK: Final = re.compile(
    rf"(?:{_GAP_BACK}(?:[A-Za-z0-9+/=](?!\\)){{1,76}})?(?:{_GAP_BACK}(?:[A-Za-z0-9+/=](?!\\)){{16,200}}){{1,400}}"
)
_PUTTY: Final = re.compile(
    r"PuTTY-User-Key-File-\d: [^\n]{0,80}\n(?:(?!PuTTY-)[^\n]{0,200}\n){1,80}?Private-MAC: [0-9a-f]{40,64}"
)

# ---- names and values -----------------------------------------------------------------------------------------------
_NAME: Final = (
    r"(?i:password|passwd|passphrase|_pass|_pwd|secret(?:[_-]?(?:access[_-]?)?key)?|token|"
    r"(?:api|access|auth|private|encryption|signing)[_-]?key)"
)
_NAME_WORDS: Final = (
    *("password", "passwd", "passphrase", "_pass", "_pwd", "secret", "token"),
    *(
        f"{what}{mark}key"
        for what in ("api", "access", "auth", "private", "encryption", "signing")
        for mark in ("", "_", "-")
    ),
)
#: A quotation mark as it is, or within a text that is quoted itself.
_QUOTE: Final = r"\\{0,15}[\"']"
_IS: Final = rf"{_NAME}(?![A-Za-z0-9_-])(?:{_QUOTE})?(?:[ \t]{{0,8}}(?:=|:)>?[ \t]{{0,8}}|[ \t]{{1,4}}(?={_QUOTE}))"
#: `NAME=value`, `"name": "value"`, `--name "value"`. The value has no blank and nothing of a program's syntax in it.
_ASSIGNED: Final = re.compile(
    rf"{_IS}(?P<quote>(?:{_QUOTE})?)(?P<secret>[^\s\"'`,;<>()\[\]{{}}$|&\\]{{8,4096}}+)(?P=quote)(?![(\[])"
)
#: In quotation marks it may have all that but a blank.
_QUOTED: Final = re.compile(rf"{_IS}(?P<quote>{_QUOTE})(?P<secret>[^\s\"'\\]{{8,256}}+)(?P=quote)")
_HEADER: Final = re.compile(
    rf"(?i:authorization)(?:{_QUOTE})?[ \t]{{0,4}}[:=][ \t]{{0,4}}(?:{_QUOTE})?(?i:bearer|basic|token|bot)[ \t]{{1,4}}"
    r"(?P<secret>[A-Za-z0-9._~+/=-]{12,4096})"
)
_AWS_SECRET: Final = re.compile(
    rf"(?i:secret[_-]?access[_-]?key|session[_-]?token)(?:{_QUOTE})?[ \t]{{0,8}}[:=][ \t]{{0,8}}(?:{_QUOTE})?"
    r"(?P<secret>[A-Za-z0-9/+]{40}[A-Za-z0-9/+]{0,2000}+={0,2}+)(?![A-Za-z0-9/+=])"
)
_URL: Final = re.compile(
    r"(?<=[A-Za-z0-9])://[^\s/:@\"'`<>]{0,128}:(?P<secret>[^\s/@\"'`<>]{3,256})@(?=[A-Za-z0-9\[._%-])"
)
_NETRC: Final = re.compile(
    rf"{_LEFT}machine[ \t]{{1,8}}\S{{1,128}}\s{{1,16}}login\s{{1,16}}\S{{1,128}}\s{{1,16}}password\s{{1,16}}"
    r"(?P<secret>[^\s\"'\\\[<]{3,256})"
)
_DOCKER: Final = re.compile(
    rf'"auth{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}(?P<secret>[A-Za-z0-9+/]{{8,4096}}+={{0,2}})(?={_QUOTE})'
)
_PLACEHOLDER: Final = re.compile(
    r"(?i)(?:x{3,}|\*+|\.{3,}|-+|_+|#+|%s|%\w+%|(?:your|my)[_ -].*|<.*|.*example.*|.*placeholder.*|change.?me.*|"
    r"redacted.*|(?:your|my)?(?:pass(?:word|wd|phrase)?|secret|token|(?:api|access)?key|user|none|null|undefined|true|false|string|"
    r"required|optional)\d{0,3})"
)


#: Longer values are not looked at for being one.
_LONGEST_PLACEHOLDER: Final = 48
_DIGIT: Final = re.compile("[0-9]")


def _password(value: str) -> bool:
    return not (
        (len(value) <= _LONGEST_PLACEHOLDER and _PLACEHOLDER.fullmatch(value))
        or value[:1] in "$%{"
        or "${" in value
        or "{{" in value
    )


def _random(value: str) -> bool:
    """Whether a value beside a telling name is more than a word, a path or a piece of a program."""
    if not _DIGIT.search(value):
        letters = "".join(filter(str.isalpha, value))
        return len(value) - 2 <= len(letters) >= _LONGER and _flips(letters) >= _FLIPS * len(letters)
    if not _password(value) or value.startswith(("/", "./", "~/", "http:", "https:", "file:", "env.", "os.", "self.")):
        return False
    digits = sum(c.isdigit() for c in value)
    if not digits or not any(c.isalpha() for c in value) or len(set(value)) < _FEW:
        return False
    # `v1.2.3-rc4`, `user_id_2`, `auth-service-2` are mostly words. A secret mixes more, or is long.
    mixed = any(c.isupper() for c in value) and any(c.islower() for c in value)
    odd = any(not c.isalnum() and c not in "._-" for c in value)
    return mixed or odd or len(value) >= _LONG or digits >= _DIGITS


def _flips(value: str) -> int:
    """How often capitals and small letters follow each other: twice a word in names, every second letter by chance."""
    return sum(one.isupper() != other.isupper() for one, other in pairwise(value))


#: Letters alone: the length, and the share of changes of case, that no name of a program has.
_LONGER, _FLIPS = 24, 0.4
#: Different characters, length and digits that tell a random value from a word.
_FEW, _LONG, _DIGITS = 6, 20, 3


def _login(value: str) -> bool:
    """Whether it is a name and a password, as programs for containers keep them."""
    try:
        name, mark, password = base64.b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        return False
    return bool(mark) and name.isprintable() and len(password) > 2 and password.isprintable() and _password(password)


def _lettered(value: str) -> bool:
    """Whether a value has digits as well as letters behind its mark, and is no row of one character."""
    body = value.partition("-")[2]
    return any(map(str.isdigit, body)) and any(map(str.isalpha, body)) and len(set(body)) >= _FEW


def _not_of_a_manual(value: str) -> bool:
    return not value.endswith(("EXAMPLE", "EXAMPLEKEY"))


DETECTORS: Final = (
    Detector("private-key", ("-----BEGIN ",), _PEM),
    Detector("private-key", ("-----END ",), _PEM_END, before=_LINES_BACK),
    Detector("private-key", ("PuTTY-User-Key-File-",), _PUTTY),
    _token("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _token_64(
        "aws-access-key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}", _not_of_a_manual
    ),
    Detector(
        "aws-secret-key",
        ("secretaccess", "secret_access", "secret-access", "sessiontoken", "session_token", "session-token"),
        _AWS_SECRET,
        folded=True,
        check=_not_of_a_manual,
    ),
    _token_64("google-api-key", ("AIza",), r"AIza[0-9A-Za-z_-]{35}"),
    _token("google-oauth-token", "ya29.", r"ya29\.[0-9A-Za-z_.-]{20,2048}"),
    _token("google-refresh-token", ("1//0", "4/0A"), r"(?:1//0|4/0A)[0-9A-Za-z_-]{40,512}"),
    _token("google-oauth-secret", "GOCSPX-", r"GOCSPX-[0-9A-Za-z_-]{28}"),
    _token("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{36,251}"),
    _token("github-token", "github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _token("gitlab-token", ("glpat-", "glrt-", "gldt-", "glptt-"), r"gl(?:pat|rt|dt|ptt)-[0-9A-Za-z_.-]{20,300}"),
    _token(
        "slack-token",
        ("xoxa", "xoxb", "xoxe", "xoxo", "xoxp", "xoxr", "xoxs"),
        r"xox[abeoprs][.-][0-9A-Za-z.-]{20,300}",
    ),
    _token("slack-token", "xapp-", r"xapp-\d-[A-Z0-9]{8,16}-\d{8,16}-[0-9a-f]{32,128}"),
    Detector(
        "slack-webhook",
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[0-9A-Za-z/_-]{24,200})"),
    ),
    _token_64("jwt", ("eyJ",), r"eyJ[0-9A-Za-z_-]{10,4096}\.eyJ[0-9A-Za-z_-]{10,16384}\.[0-9A-Za-z_-]{16,2048}"),
    _token_64(
        "jwt",
        ("eyJ",),
        r"eyJ[0-9A-Za-z_-]{10,4096}\.[0-9A-Za-z_-]{0,2048}\.[0-9A-Za-z_-]{12,64}\.[0-9A-Za-z_-]{1,16384}"
        r"\.[0-9A-Za-z_-]{16,64}",
    ),
    _token("anthropic-key", "sk-ant-", r"sk-ant-[a-z0-9]{2,12}-[0-9A-Za-z_-]{40,200}"),
    Detector(
        "openai-key",
        ("T3BlbkFJ",),
        re.compile(f"T3BlbkFJ[0-9A-Za-z_-]{{16,200}}+{_RIGHT}"),
        before=re.compile(r"[0-9A-Za-z_-]{16,200}-ks" + _LEFT_BACK),
    ),
    # Keys without a mark, of OpenAI of old and of many others that took over its form.
    _token_64("openai-key", ("sk-",), r"sk-(?:[0-9A-Za-z]{48}|[0-9a-f]{32})", _lettered),
    _token(
        "openai-key",
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-"),
        r"sk-(?:proj|svcacct|admin|or-v1)-[0-9A-Za-z_-]{40,300}",
    ),
    _token(
        "stripe-key",
        ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"),
        r"(?:(?:sk|rk)_(?:live|test)|whsec)_[0-9A-Za-z]{16,250}",
    ),
    _token("npm-token", "npm_", r"npm_[0-9A-Za-z]{36}"),
    _token("pypi-token", "pypi-AgE", r"pypi-AgE[0-9A-Za-z_-]{50,1000}"),
    _token("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{34,40}"),
    _token("gsk-key", "gsk_", r"gsk_[0-9A-Za-z]{20,80}"),
    _token("xai-key", "xai-", r"xai-[0-9A-Za-z]{60,120}"),
    _token("docker-token", ("dckr_pat_", "dckr_oat_"), r"dckr_[po]at_[0-9A-Za-z_-]{20,80}"),
    _token("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"do[por]_v1_[0-9a-f]{64}"),
    _token("sendgrid-key", "SG.", r"SG\.[0-9A-Za-z_-]{20,24}\.[0-9A-Za-z_-]{39,50}"),
    Detector(
        "telegram-token",
        (":AA",),
        re.compile(f":AA[0-9A-Za-z_-]{{32,34}}{_RIGHT}"),
        before=re.compile(r"\d{8,10}" + _LEFT_BACK),
    ),
    _token("vault-token", ("hvs.", "hvb.", "hvr."), r"hv[sbr]\.[0-9A-Za-z_-]{24,300}"),
    _token("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _token("databricks-token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    _token("atlassian-token", ("ATATT3", "ATCTT3"), r"AT(?:ATT3|CTT3)[0-9A-Za-z_=-]{28,400}"),
    _token("linear-key", "lin_api_", r"lin_api_[0-9A-Za-z]{40}"),
    _token("notion-token", "ntn_", r"ntn_[0-9]{8,14}[0-9A-Za-z]{30,50}"),
    _token("grafana-token", "glsa_", r"glsa_[0-9A-Za-z]{32}_[0-9a-f]{8}"),
    _token("postman-key", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _token("sentry-token", ("sntrys_", "sntryu_"), r"sntry[su]_[0-9A-Za-z_=+/-]{60,400}"),
    _token(
        "doppler-token",
        tuple(f"dp.{what}." for what in ("pt", "st", "ct", "sa", "scim", "audit")),
        r"dp\.[a-z]{2,5}\.(?:[a-z0-9_-]{2,35}\.)?[0-9A-Za-z]{40,44}",
    ),
    Detector(
        "azure-key",
        ("AccountKey=", "SharedAccessKey="),
        re.compile(r"(?:AccountKey|SharedAccessKey)=(?P<secret>[0-9A-Za-z+/]{42,88}={1,2})"),
    ),
    Detector("authorization-header", ("authorization",), _HEADER, folded=True, check=_password),
    Detector("password-in-url", ("://",), _URL, check=_password),
    Detector("docker-password", ('"auth',), _DOCKER, check=_login),
    Detector("netrc-password", ("machine ", "machine\t"), _NETRC, check=_password),
    Detector("named-secret", _NAME_WORDS, _ASSIGNED, folded=True, check=_random),
    Detector("named-secret", _NAME_WORDS, _QUOTED, folded=True, check=_random),
)

"""Secrets in outputs: found in every surrounding, at every border, in linear time, and not where there are none.

Every planted secret is made here at random from a fixed seed; none was ever anybody's.
"""

import base64
import hashlib
import json
import random
import string
import subprocess
import time
import uuid
from functools import cache
from pathlib import Path

import pytest

from antigravity_control.outputs import Finding, scan, scanning
from antigravity_control.outputs.detectors import DETECTORS
from antigravity_control.outputs.visible import visible

ROOT = Path(__file__).resolve().parents[3]
CHANCE = random.Random(6)
ALNUM = string.ascii_letters + string.digits


def some(count: int, letters: str = ALNUM) -> str:
    return "".join(CHANCE.choice(letters) for _ in range(count))


def segment(**claims: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()


def pem(label: str = "RSA PRIVATE KEY", lines: int = 25) -> str:
    body = "\n".join(base64.b64encode(CHANCE.randbytes(48)).decode() for _ in range(lines))
    return f"-----BEGIN {label}-----\n{body}\nQUJDRA==\n-----END {label}-----"


#: The kind, what stands before the secret, and the secret.
SECRETS = [
    ("private-key", "", pem()),
    ("private-key", "", pem("OPENSSH PRIVATE KEY", 60)),
    ("private-key", "", pem("PRIVATE KEY", 3)),
    ("age-key", "", "AGE-SECRET-KEY-1" + some(58, string.ascii_uppercase + string.digits)),
    ("aws-access-key", "", "AKIA" + some(16, string.ascii_uppercase + "234567")),
    ("aws-secret-key", "aws_secret_access_key = ", some(40, ALNUM + "/+")),
    ("aws-secret-key", '"SecretAccessKey": "', some(40, ALNUM + "/+")),
    ("aws-secret-key", "AWS_SESSION_TOKEN=", some(400, ALNUM + "/+") + "=="),
    ("google-api-key", "", "AIza" + some(35, ALNUM + "_-")),
    ("google-oauth-token", "", "ya29.a0" + some(180, ALNUM + "_-")),
    ("google-refresh-token", "", "1//0" + some(100, ALNUM + "_-")),
    ("google-oauth-secret", "", "GOCSPX-" + some(28, ALNUM + "_-")),
    *(("github-token", "", f"gh{letter}_" + some(36)) for letter in "pousr"),
    ("github-token", "", "github_pat_" + some(22) + "_" + some(59)),
    ("gitlab-token", "", "glpat-" + some(20)),
    ("slack-token", "", f"xoxb-{some(12, string.digits)}-{some(12, string.digits)}-{some(24)}"),
    ("slack-token", "", f"xapp-1-A{some(10, string.digits)}-{some(13, string.digits)}-{some(64, '0123456789abcdef')}"),
    ("slack-webhook", "https://hooks.slack.com/services/", f"T{some(8)}/B{some(8)}/{some(24)}"),
    ("jwt", "", f"{segment(alg='HS256', typ='JWT')}.{segment(sub='1234567890', name='J')}.{some(43)}"),
    ("anthropic-key", "", f"sk-ant-api03-{some(93)}AA"),
    ("openai-key", "", f"sk-{some(20)}T3BlbkFJ{some(20)}"),
    ("openai-key", "", f"sk-proj-{some(74)}T3BlbkFJ{some(74)}"),
    ("openai-key", "", f"sk-{some(47)}7"),
    ("openai-key", "", f"sk-{some(30, '0123456789abcdef')}0a"),
    ("stripe-key", "", "sk_live_" + some(24)),
    ("npm-token", "", "npm_" + some(36)),
    ("pypi-token", "", "pypi-AgEIcHlwaS5vcmc" + some(150)),
    ("huggingface-token", "", "hf_" + some(34, string.ascii_letters)),
    ("gsk-key", "", "gsk_" + some(52)),
    ("docker-token", "", "dckr_pat_" + some(27)),
    ("digitalocean-token", "", "dop_v1_" + some(64, "0123456789abcdef")),
    ("sendgrid-key", "", f"SG.{some(22)}.{some(43)}"),
    ("telegram-token", "", f"{some(9, '123456789')}:AA{some(33)}"),
    ("vault-token", "", "hvs." + some(90)),
    ("azure-key", "AccountName=a;AccountKey=", some(86) + "=="),
    ("authorization-header", "Authorization: Bearer ", some(40)),
    ("authorization-header", '"authorization": "Basic ', base64.b64encode(b"someone:else's word").decode()),
    ("password-in-url", "postgres://admin:", some(14)),
    ("password-in-url", "https://bob:", "p4ss-" + some(9)),
    ("netrc-password", "machine example.com login bob password ", some(16)),
    ("named-secret", "DB_PASSWORD=", "Tr0ub4dor" + some(6)),
    ("named-secret", '"client_secret": "', some(32)),
    ("named-secret", "export API_KEY='", some(32)),
    ("named-secret", "https://example.com/?access_token=", some(300)),
    ("named-secret", '"password": "', "Tr0ub4dor&3;x(y)"),
    ("named-secret", r"{\"api_key\": \"", some(32)),
    ("authorization-header", r"{\"Authorization\": \"Bearer ", some(40)),
    ("named-secret", "SMTP_PASS=", "Xk9#mPq2" + some(4)),
    ("named-secret", "password=", "MyS3cret" + some(6)),
    ("named-secret", "api_token = ", "aBxQzRtYwPbNmKjHgFdSaLpOiUyT"),
    ("docker-password", '"auth": "', base64.b64encode(b"bob:" + some(14).encode()).decode()),
    ("named-secret", "  token: ", str(uuid.UUID(int=CHANCE.getrandbits(128)))),
]
IDS = [f"{kind}-{number}" for number, (kind, _, _) in enumerate(SECRETS)]
#: What follows, where the form of the secret needs it.
AFTER = {"netrc-password": "\n", "password-in-url": "@db.example.com/x", "named-secret": "", "azure-key": ";x=y"}


def line(kind: str, before: str, secret: str) -> tuple[str, str]:
    quote = before[-1:] if before[-1:] in ("'", '"') else ""
    quote = rf"\{quote}" if before.endswith(rf"\{quote}") and quote else quote
    return before, AFTER.get(kind, "") + quote


@pytest.mark.parametrize(("kind", "before", "secret"), SECRETS, ids=IDS)
def test_each_kind_is_found_and_only_it_is_replaced(kind: str, before: str, secret: str) -> None:
    before, after = line(kind, before, secret)
    for head, tail in (("", ""), ("$ show\n", "\nnext line\n"), ("é🙂\t(", ") rest"), ("x = ", " # note")):
        text = f"{head}{before}{secret}{after}{tail}"
        result = scan(text, policy="redact")
        assert [(each.kind, each.start, each.end) for each in result.findings] == [
            (kind, len(head + before), len(head + before + secret))
        ]
        assert result.text == f"{head}{before}[redacted: {kind}]{after}{tail}"
        assert scan(result.text, policy="audit").findings == ()
        assert scan(text, policy="audit") == scanning.Scan(result.findings, text, len(text))


@pytest.mark.parametrize(("kind", "before", "secret"), SECRETS, ids=IDS)
def test_within_json_with_its_escapes_nothing_of_it_is_left(kind: str, before: str, secret: str) -> None:
    before, after = line(kind, before, secret)
    text = json.dumps({"output": f"first\n{before}{secret}{after}\nlast"})
    result = scan(text, policy="redact")
    assert {each.kind for each in result.findings} == {kind}
    longest = max(secret.split("\n"), key=len)
    assert longest not in result.text
    assert result.text.startswith('{"output": "first\\n')
    assert result.text.endswith('last"}')


#: What programs put around and into what they show.
SHOWN = {
    "a colour": lambda text: f"\x1b[32m{text}\x1b[0m",
    "a colour that ends before it": lambda text: f"\x1b[1mx\x1b[0m{text}",
    "a match of a search": lambda text: f"f:\x1b[01;31m\x1b[K{text}\x1b[m\x1b[K",
    "a match of a part": lambda text: f"{text[: len(text) // 2]}\x1b[01;31m\x1b[K{text[len(text) // 2 :]}\x1b[m\x1b[K",
    "a coloured difference": lambda text: "\n".join(
        f"\x1b[32m+\x1b[m\x1b[32m{each}\x1b[m" for each in text.split("\n")
    ),
    "a line that was added": lambda text: "\n".join(f"+{each}" for each in text.split("\n")),
    "a line that was taken away": lambda text: "\n".join(f"-{each}" for each in text.split("\n")),
    "a search in files": lambda text: "\n".join(f"a/b-1.pem:{n}:{each}" for n, each in enumerate(text.split("\n"), 1)),
    "a colour in JSON": lambda text: json.dumps(f"\x1b[31m{text}\x1b[0m"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(f"x\n{text}")),
    "bytes of Python": lambda text: repr(f"é\n{text}".encode()),
    "signs as numbers": lambda text: f"\\u003d{text}".replace("=", "\\u003d") if "=" not in text else text,
    "an address": lambda text: f"https://example.com/?q=%20{text}",
    "half of a pair": lambda text: f"\ud800{text}\udfff",
    "base64": lambda text: base64.b64encode(f"# settings\n{text}\n".encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(f"# settings\n{text}\n".encode()).decode(),
    "base64 in a file": lambda text: f"  config: {base64.b64encode(text.encode()).decode()}\n  kind: Secret\n",
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize(("kind", "before", "secret"), SECRETS, ids=IDS)
def test_however_it_is_shown_nothing_of_it_is_left(kind: str, before: str, secret: str, shown: str) -> None:
    before, after = line(kind, before, secret)
    text = SHOWN[shown](f"{before}{secret}{after}")
    result = scan(f"first\n{text}\nlast", policy="redact")
    assert result.findings
    assert result.text.startswith("first")
    assert result.text.endswith("last")
    left = visible(result.text).text
    longest = max(secret.split("\n"), key=len)
    assert longest not in left
    if shown.startswith("base64"):
        assert base64.b64encode(secret.encode())[4:28].decode() not in left


def test_places_are_those_of_the_text_that_was_given() -> None:
    secret = "ghp_" + some(36)
    text = f"\x1b[1ma\x1b[0m b \x1b[32m{secret[:10]}\x1b[1m{secret[10:]}\x1b[0m c"
    result = scan(text, policy="redact")
    (found,) = result.findings
    assert text[found.start : found.end] == f"{secret[:10]}\x1b[1m{secret[10:]}"
    assert result.text == "\x1b[1ma\x1b[0m b \x1b[32m[redacted: github-token]\x1b[0m c"
    assert result.scanned == len(text)


@pytest.mark.parametrize(("kind", "before", "secret"), SECRETS, ids=IDS)
def test_none_is_lost_at_a_border_of_windows(
    kind: str, before: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "WINDOW", 512)
    before, after = line(kind, before, secret)
    whole = f"{before}{secret}{after}\n"
    for shift in range(0, 513, 7 if len(whole) < 600 else 61):
        text = "." * (511 - shift % 512) + "\n" + whole + "tail " * 300
        found = scan(text, policy="audit").findings
        at = text.index(secret)
        assert [(each.kind, each.start, each.end) for each in found] == [(kind, at, at + len(secret))], shift


def test_a_finding_and_its_repr_hold_no_secret() -> None:
    secret = "ghp_" + some(36)
    result = scan(f"a {secret} b", policy="audit")
    assert result.findings == (Finding("github-token", 2, 42),)
    assert secret not in repr(result.findings)
    blocked = scan(f"a {secret} b", policy="block")
    assert secret not in repr(blocked)


def test_a_key_of_which_a_part_was_cut_away_is_found() -> None:
    lines = pem(lines=30).split("\n")
    for cut, left in ((lines[:12], 0), (lines[15:], 0)):
        text = "\n".join(["before it", *cut, "[900 bytes cut here]"])
        redacted = scan(text, policy="redact")
        assert [each.kind for each in redacted.findings] == ["private-key"]
        assert sum(each in redacted.text for each in cut) == left
        assert redacted.text.startswith("before ")
        assert redacted.text.endswith("[900 bytes cut here]")
    numbered = "\n".join(f"{number:6}\t{each}" for number, each in enumerate(lines, start=1))
    assert not any(each in scan(numbered, policy="redact").text for each in lines[1:-1])


def test_policies() -> None:
    secret = f"a=1 npm_{some(36)} {pem()}"
    assert scan(secret, policy="off") == scanning.Scan((), secret, 0)
    audit = scan(secret, policy="audit")
    assert ([each.kind for each in audit.findings], audit.text) == (["npm-token", "private-key"], secret)
    blocked = scan(secret, policy="block").text
    assert "2 secret(s)" in blocked
    assert "npm-token, private-key" in blocked
    assert "a=1" not in blocked
    for policy in ("audit", "redact", "block"):
        assert scan("nothing here", policy=policy).text == "nothing here"  # type: ignore[arg-type]  # the loop's strings
    with pytest.raises(ValueError, match="must be"):
        scan("x", policy="other")  # type: ignore[arg-type]  # what a setting may hold


@pytest.mark.parametrize("policy", ["redact", "block"])
def test_what_could_not_be_looked_at_in_time_is_not_passed_on(policy: scanning.OutputPolicy) -> None:
    text = "clean\n" + "x" * scanning.WINDOW + "npm_" + some(36)
    result = scan(text, policy=policy, budget_s=-1.0)
    assert (result.scanned, "npm_" in result.text, "left out" in result.text) == (0, False, True)
    assert scan(text, policy="audit", budget_s=-1.0).text == text


CLEAN = (
    *("hashes", "sha256", "uuids", "images", "mime", "lock files", "addresses", "public keys", "code", "manuals"),
    *("urls", "this house", "package lock"),
)


@cache
def clean_texts() -> dict[str, str]:
    made = {
        "hashes": "\n".join(f"commit {hashlib.sha1(str(n).encode()).hexdigest()} fix {n}" for n in range(3000)),
        "sha256": "\n".join(f"    --hash=sha256:{CHANCE.randbytes(32).hex()} \\" for _ in range(2000)),
        "uuids": "\n".join(f"id={uuid.UUID(int=CHANCE.getrandbits(128))}" for _ in range(3000)),
        "images": "\n".join(
            f"data:image/png;base64,{base64.b64encode(CHANCE.randbytes(30_000)).decode()}" for _ in range(20)
        ),
        "mime": "\n".join(base64.encodebytes(CHANCE.randbytes(200_000)).decode() for _ in range(4)),
        "lock files": "\n".join(
            f'      "integrity": "sha512-{base64.b64encode(CHANCE.randbytes(64)).decode()}",' for _ in range(3000)
        ),
        "addresses": "\n".join(
            f"10.0.{n % 256}.7 GET http://192.168.1.{n % 250}:8080/token?page={n}" for n in range(3000)
        ),
        "public keys": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"
        + some(43)
        + " a@b\n"
        + pem("PUBLIC KEY")
        + pem("CERTIFICATE"),
        "code": "token = get_token(user1)\npassword: str = ''\nsecret_key = os.environ['KEY_1']\napi_key=$API_KEY1\n"
        "if token == 'x1':\n    pass\nself.token = Token(a1b2)\ntokens: 12345678\ntokenizer = Tokenizer2000()\n"
        "-----BEGIN PRIVATE KEY-----\n is how a key begins, and it ends with -----END PRIVATE KEY-----\n",
        "manuals": "postgres://user:password@host/db https://USER:$TOKEN@x.y https://a:<password>@h\nAPI_KEY=your_api_key_1\n"
        "AKIAIOSFODNN7EXAMPLE password=changeme123 token=xxxxxxxxxxxx secret: <your secret 1> git@github.com:a/b.git\n",
        "urls": "https://example.com:8443/a@b http://[::1]:80/x@y mailto:a:b@c https://packages.example.org/@types/node\n",
    }
    made["this house"] = "".join(
        path.read_text() for folder in ("docs", "control", "plugin") for path in sorted((ROOT / folder).rglob("*.py"))
    )
    made["package lock"] = (ROOT / "tests/node/package-lock.json").read_text()
    return made


@pytest.mark.parametrize("name", CLEAN)
def test_ordinary_output_holds_none(name: str) -> None:
    text = clean_texts()[name]
    found = scan(text, policy="redact", budget_s=60)
    assert [text[max(0, each.start - 20) : each.end][:90] for each in found.findings] == []
    assert found.text == text


def test_the_history_of_a_repository_holds_none() -> None:
    text = subprocess.run(["git", "-C", str(ROOT), "log", "--stat"], capture_output=True, text=True, timeout=30).stdout
    assert scan(text, policy="audit").findings == ()


HOSTILE = [
    *(
        "\x1b[0m",
        "\x1b[" + "1;" * 30,
        "\\u001b[",
        "QUJD",
        "QUJD" * 19 + "\n",
        "QQ==",
        "%41",
        "\\u0041",
        "\n+",
        '"auth":"QQ"',
    ),
    "-----BEGIN PRIVATE KEY-----\nfile.name-1:",
    *(word + tail for word in sorted({word for each in DETECTORS for word in each.words}) for tail in ("", "a1=")),
    *("-----BEGIN RSA PRIVATE KEY-----\n", "-----END RSA PRIVATE KEY-----", "A" * 24 + "-----END RSA PRIVATE KEY-----"),
    *("-----BEGIN PRIVATE KEY-----\nA: b\nA: c\n", "eyJaaaaaaaaaaa.", "https://a:", "token=/1", "İtoken=", "://a:bbb"),
    *(
        "PuTTY-User-Key-File-2: x\n",
        "machine a login b ",
        "a",
        "\n",
        "=",
        '"token": "',
        "authorization: bearer a1b2c3d4e5f6",
    ),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_costs_time_in_proportion_to_its_length(piece: str) -> None:
    """Much of each word: one quadratic pattern would take minutes. In seconds of the processor."""
    text = (piece * (131_072 // len(piece) + 1))[:131_072]
    began = time.process_time()
    assert scan(text, policy="redact", budget_s=60).scanned == len(text)
    assert time.process_time() - began < 1.0

"""The guard in front of the bridge: which HTTP requests are let in at all (A-040, A-041).

Owns: the order of refusals and their HTTP forms. A request passes with the exact Host, without an Origin, on ``/mcp``,
with the bearer of an open endpoint, by POST and with a JSON body of bounded size.
Never: reads a body, tells one wrong bearer from another, or puts anything of the request into an answer.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from antigravity_acp.limits import MAX_BODY_BYTES

Scope = Any  # an ASGI scope: a dict whose keys the ASGI specification names
EndpointT = TypeVar("EndpointT")


class Refusal(NamedTuple):
    """An HTTP answer that ends a request: status, a line for people, and headers beside the usual ones."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Admitted(NamedTuple, Generic[EndpointT]):
    """A request that may be read: whose it is, its headers, and whether JSON or an event stream may answer it."""

    endpoint: EndpointT
    headers: dict[str, str]
    takes_json: bool
    takes_stream: bool


class Guard(Generic[EndpointT]):
    """Judges requests by their head.

    :param host: the only Host header that is let in, ``127.0.0.1:PORT``.
    """

    def __init__(self, host: str) -> None:
        self._host = host.encode()
        self._endpoints: dict[bytes, tuple[bytes, EndpointT]] = {}

    def grant(self, token: str, endpoint: EndpointT) -> Callable[[], None]:
        """Let a bearer in until the returned function is called; calling that twice is harmless."""
        key = hashlib.sha256(token.encode()).digest()
        self._endpoints[key] = (token.encode(), endpoint)

        def revoke() -> None:
            self._endpoints.pop(key, None)

        return revoke

    def judge(self, scope: Scope) -> Admitted[EndpointT] | Refusal:
        """Decide on a request from its head alone."""
        head: list[tuple[bytes, bytes]] = scope["headers"]
        if _values(head, b"host") != [self._host]:
            return Refusal(421, "This endpoint answers to its own address only.")
        if _values(head, b"origin"):
            return Refusal(403, "Browsers are not served here.")
        if scope["raw_path"] != b"/mcp" or scope["query_string"]:
            return Refusal(404, "Nothing is here.")
        endpoint = self._bearer(_values(head, b"authorization"))
        if endpoint is None:
            return Refusal(401, "A valid bearer token is needed.", ((b"www-authenticate", b"Bearer"),))
        if scope["method"] != "POST":
            return Refusal(405, "Only POST is served.", ((b"allow", b"POST"),))
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head}
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return Refusal(415, "The body must be application/json.")
        if headers.get("content-encoding", "identity").lower() != "identity":
            return Refusal(415, "The body must not be compressed.")
        if int(headers.get("content-length", 0)) > MAX_BODY_BYTES:
            return Refusal(413, TOO_LARGE)
        kinds = {part.partition(";")[0].strip().lower() for part in headers.get("accept", "*/*").split(",")}
        takes_json = not kinds.isdisjoint({"*/*", "application/*", "application/json", ""})
        takes_stream = "text/event-stream" in kinds
        if not takes_json and not takes_stream:
            return Refusal(406, "Answers are application/json or text/event-stream.")
        return Admitted(endpoint, headers, takes_json, takes_stream)

    def _bearer(self, values: list[bytes]) -> EndpointT | None:
        scheme, _, token = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer":
            return None
        # Looked up by hash, so that the time it takes says nothing of a token's beginning; compared whole all the same.
        known = self._endpoints.get(hashlib.sha256(token.strip()).digest())
        if known is None or not hmac.compare_digest(known[0], token.strip()):
            return None
        return known[1]


TOO_LARGE = f"The body has more than {MAX_BODY_BYTES} bytes."


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]

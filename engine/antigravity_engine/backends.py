"""Where the model is: which back end the flags and the environment choose, how it is authorised, what it offers.

Owns the choice and the list of models. A back end is data (`Backend`); what runs for it (the scripted model, the key
proxy) is opened by `Services`. Never prints or logs a key; keys go to the harness, not into its environment.
"""

import asyncio
import contextlib
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from antigravity_engine import errors, limits
from antigravity_engine.errors import EngineError
from antigravity_engine.options import Options, UsageError

Kind = Literal["gemini", "vertex", "openai", "script"]

#: Offered where a Google back end cannot be asked. The first is the default of google-antigravity 0.1.22.
GEMINI_DEFAULT_MODELS = ("gemini-3.8-flash",)
GEMINI_BASE_URL = "https://generativelanguage.googleapis.com"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Credentials that the harness gets by configuration or not at all; tools it starts must not inherit them.
SECRET_VARIABLES = frozenset(
    {"GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_GENAI_API_KEY"}
)


@dataclass(frozen=True, slots=True)
class Backend:
    """A usable back end. Exactly one way in: an API key, a project and a location, or a base URL."""

    kind: Kind
    models: tuple[str, ...] = ()
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    project: str | None = None
    location: str | None = None
    script: Path | None = None

    @property
    def auth_method(self) -> str | None:
        """The ACP auth method that this back end stands for; None where nothing has to be authorised."""
        if self.kind == "vertex":
            return "vertex-api-key" if self.api_key else "vertex-adc"
        return {"gemini": "gemini-api-key", "openai": "openai-compatible"}.get(self.kind)

    @property
    def label(self) -> str:
        """For people: what and where, without a secret."""
        if self.kind == "script":
            return f"scripted model ({self.script})"
        if self.kind == "vertex":
            return "Vertex AI (API key)" if self.api_key else f"Vertex AI ({self.project}, {self.location})"
        host = urllib.parse.urlsplit(self.base_url or GEMINI_BASE_URL).hostname
        return f"{'Gemini' if self.kind == 'gemini' else 'OpenAI-compatible'} end point at {host}"


AUTH_METHODS: tuple[dict[str, str], ...] = (
    {
        "id": "gemini-api-key",
        "name": "Gemini API key",
        "description": "Start the engine with GEMINI_API_KEY in its environment.",
    },
    {
        "id": "vertex-api-key",
        "name": "Vertex AI express mode",
        "description": "Start the engine with --backend vertex and GOOGLE_API_KEY in its environment.",
    },
    {
        "id": "vertex-adc",
        "name": "Vertex AI with application default credentials",
        "description": "Run `gcloud auth application-default login`, then start the engine with --backend vertex, "
        "GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION.",
    },
    {
        "id": "openai-compatible",
        "name": "OpenAI-compatible end point (Ollama, LM Studio and others)",
        "description": "Start the engine with --openai-base-url URL.",
    },
)

NO_BACKEND = (
    "no model back end is configured: set GEMINI_API_KEY, or give --backend vertex, --gemini-base-url URL, "
    "--openai-base-url URL or --script FILE"
)


def choose(options: Options) -> Backend | None:
    """The back end that the flags, else the environment, stand for; None when there is none.

    Raises `UsageError` when the flags contradict each other or a chosen back end lacks something.
    """
    given: dict[Kind, str] = {}
    if options.script:
        given["script"] = "--script"
    if options.openai_base_url:
        given["openai"] = "--openai-base-url"
    if options.gemini_base_url:
        given["gemini"] = "--gemini-base-url"
    if options.backend:
        given[options.backend] = "--backend"  # type: ignore[index]  # the parser admits the four kinds only
    if len(given) > 1:
        raise UsageError(f"{' and '.join(sorted(set(given.values())))} name different back ends; give one")
    environment = options.environment
    kind: Kind | None = next(iter(given), None)
    if kind is None:
        if environment.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true"):
            kind = "vertex"
        elif environment.get("GEMINI_API_KEY"):
            kind = "gemini"
        else:
            return None
    return _BUILDERS[kind](options)


def _gemini(options: Options) -> Backend:
    key = options.environment.get("GEMINI_API_KEY") or None
    base_url = _url(options.gemini_base_url or options.environment.get("GOOGLE_GEMINI_BASE_URL"), "--gemini-base-url")
    if not key and not base_url:
        raise UsageError("the Gemini back end needs GEMINI_API_KEY in the environment")
    return Backend("gemini", options.models, base_url=base_url, api_key=key)


def _vertex(options: Options) -> Backend:
    environment = options.environment
    project, location = environment.get("GOOGLE_CLOUD_PROJECT"), environment.get("GOOGLE_CLOUD_LOCATION")
    if project and location:
        return Backend("vertex", options.models, project=project, location=location)
    if key := environment.get("GOOGLE_API_KEY"):
        return Backend("vertex", options.models, api_key=key)
    raise UsageError(
        "the Vertex back end needs GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION (application default credentials), "
        "or GOOGLE_API_KEY (express mode)"
    )


def _openai(options: Options) -> Backend:
    environment = options.environment
    base_url = _url(options.openai_base_url or environment.get("OPENAI_BASE_URL"), "--openai-base-url")
    if not base_url:
        raise UsageError(
            "the OpenAI-compatible back end needs --openai-base-url URL, for example http://127.0.0.1:11434/v1"
        )
    key = None
    if options.openai_api_key_env:
        key = environment.get(options.openai_api_key_env)
        if not key:
            raise UsageError(f"--openai-api-key-env names {options.openai_api_key_env}, which is not set")
    elif base_url.startswith("https://"):
        # A key that happens to be in the environment must not be sent to a local server in clear text.
        key = environment.get("OPENAI_API_KEY") or None
    return Backend("openai", options.models, base_url=base_url, api_key=key)


def _script(options: Options) -> Backend:
    if options.script is None:
        raise UsageError("the scripted back end needs --script FILE")
    return Backend("script", options.models, script=options.script)


_BUILDERS: dict[Kind, Callable[[Options], Backend]] = {
    "gemini": _gemini,
    "vertex": _vertex,
    "openai": _openai,
    "script": _script,
}


def _url(value: str | None, flag: str) -> str | None:
    if not value:
        return None
    parts = urllib.parse.urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise UsageError(f"{flag}: an http or https URL without user, query and fragment is needed")
    return value.rstrip("/")


def with_loopback(environment: MutableMapping[str, str]) -> None:
    """Adds the loopback names to NO_PROXY and no_proxy, in place."""
    for name in ("NO_PROXY", "no_proxy"):
        entries = [entry.strip() for entry in environment.get(name, "").split(",") if entry.strip()]
        environment[name] = ",".join(entries + [host for host in _LOOPBACK if host not in entries])


class Services:
    """What a back end needs at run time, opened on first use and closed once: the scripted model or the key proxy.

    `endpoint()` is the back end as the harness shall see it: the same for the direct ones, a loopback address for
    the others.
    """

    def __init__(self, backend: Backend, options: Options) -> None:
        self.backend = backend
        self._options = options
        self._endpoint: Backend | None = None
        self._models: tuple[str, ...] = ()
        self._lock = asyncio.Lock()
        self._close: list[Callable[[], None]] = []

    async def endpoint(self) -> Backend:
        """Raises `EngineError` (script that cannot be used, port that cannot be opened)."""
        async with self._lock:
            if self._endpoint is None:
                self._endpoint = await asyncio.to_thread(self._open)
            return self._endpoint

    async def models(self) -> tuple[str, ...]:
        """The models on offer, the default first. Asks the back end once; while it does not answer, the defaults."""
        endpoint = await self.endpoint()
        if self.backend.models:
            return self.backend.models
        if not self._models:
            listed = await _list_models(self.backend, endpoint)
            if not listed and self.backend.kind == "openai":
                raise EngineError(
                    "model_unreachable", "the end point lists no models; check that it runs, or name one with --model"
                )
            if not listed:
                return GEMINI_DEFAULT_MODELS
            default = next((name for name in GEMINI_DEFAULT_MODELS if name in listed), listed[0])
            self._models = (default, *(name for name in listed if name != default))
        return self._models

    async def aclose(self) -> None:
        """Closes what was opened. Bounded by the bounds of its parts."""
        closers, self._close = self._close, []
        for close in closers:
            await asyncio.to_thread(close)

    def _open(self) -> Backend:
        if self.backend.kind == "script":
            return self._open_script()
        if self.backend.kind == "openai" and self.backend.api_key:
            from antigravity_engine.keyproxy import KeyProxy

            proxy = KeyProxy(self.backend.base_url or "", self.backend.api_key)
            proxy.open()
            self._close.append(proxy.close)
            return replace(self.backend, base_url=proxy.base_url, api_key=None)
        return self.backend

    def _open_script(self) -> Backend:
        import secrets

        from antigravity_engine.script import ScriptError, ScriptServer, load_script

        key = secrets.token_urlsafe(32)
        try:
            script = load_script(self.backend.script or "")
            server = ScriptServer(script, key=key, log=self._options.script_log)
            server.open()
        except ScriptError as error:
            raise EngineError("internal", f"the script cannot be used: {error}") from None
        except OSError:
            raise EngineError("internal", "the scripted model could not be started (port or --script-log)") from None
        self._close.append(server.close)
        self._models = tuple(script.models)
        return replace(self.backend, base_url=server.base_url, api_key=key)


async def _list_models(backend: Backend, endpoint: Backend) -> tuple[str, ...]:
    """The models a back end lists; empty when it does not answer in time or cannot be asked."""
    if backend.kind == "vertex":
        return ()
    if backend.kind == "openai":
        answer = await _get(f"{endpoint.base_url}/models", {})
        names = [item.get("id") for item in _items(answer, "data")]
    else:
        headers = {"x-goog-api-key": endpoint.api_key} if endpoint.api_key else {}
        answer = await _get(f"{endpoint.base_url or GEMINI_BASE_URL}/v1beta/models?pageSize=1000", headers)
        names = [
            str(item.get("name", "")).removeprefix("models/")
            for item in _items(answer, "models")
            if "generateContent" in item.get("supportedGenerationMethods", ["generateContent"])
        ]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _items(answer: Any, key: str) -> list[dict[str, Any]]:
    found = answer.get(key) if isinstance(answer, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


async def _get(url: str, headers: dict[str, str]) -> Any:
    """A JSON answer, or None. In a daemon thread: a name look-up that hangs must not hold the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any) -> None:
        if not future.done():
            future.set_result(value)

    def fetch() -> None:
        value = None
        try:
            request = urllib.request.Request(url, headers={"Accept": "application/json", **headers})  # noqa: S310 - `_url` admits http(s) only
            with urllib.request.urlopen(request, timeout=limits.LIST_MODELS_S) as response:  # noqa: S310 - as above
                value = msgspec.json.decode(response.read(limits.MAX_MODEL_LIST_BYTES))
        except (OSError, ValueError, urllib.error.URLError):
            pass
        with contextlib.suppress(RuntimeError):  # the engine has ended meanwhile
            loop.call_soon_threadsafe(settle, value)

    threading.Thread(target=fetch, name="list-models", daemon=True).start()
    try:
        return await asyncio.wait_for(future, limits.LIST_MODELS_S + 0.5)
    except TimeoutError:
        return None


def auth_required() -> EngineError:
    """The answer to session/new and authenticate while there is no back end."""
    methods = [method["id"] for method in AUTH_METHODS]
    return EngineError(
        "auth_required", f"Authentication required: {NO_BACKEND}", code=errors.AUTH_REQUIRED, authMethods=methods
    )

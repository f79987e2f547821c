"""The ways to a model: which one the flags and the environment choose, and that each is really used."""

from pathlib import Path
from typing import Any

import pytest
from helpers.engine_peer import RpcError, engine
from helpers.openai_endpoint import openai_endpoint

from antigravity_engine import backends, errors
from antigravity_engine.options import Options, UsageError
from antigravity_engine.script import ScriptServer, parse_script

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def chosen(environment: dict[str, str] | None = None, **flags: Any) -> backends.Backend | None:
    return backends.choose(Options(environment=environment or {}, **flags))


@pytest.mark.requirement("X-001")
def test_flags_win_over_the_environment_and_nothing_is_guessed() -> None:
    assert chosen() is None
    assert chosen({"OPENAI_API_KEY": "k", "GOOGLE_API_KEY": "k", "OPENAI_BASE_URL": "http://x"}) is None
    gemini = chosen({"GEMINI_API_KEY": "k"})
    assert gemini is not None
    assert (gemini.kind, gemini.api_key, gemini.base_url, gemini.auth_method) == ("gemini", "k", None, "gemini-api-key")
    vertex = chosen({"GEMINI_API_KEY": "k", "GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": "e"})
    assert vertex is not None
    assert (vertex.kind, vertex.api_key, vertex.auth_method) == ("vertex", "e", "vertex-api-key")
    where = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l", "GOOGLE_API_KEY": "e"}
    adc = chosen(where, backend="vertex")
    assert adc is not None
    assert (adc.project, adc.location, adc.api_key, adc.auth_method) == ("p", "l", None, "vertex-adc")
    local = chosen({"GEMINI_API_KEY": "k"}, openai_base_url="http://127.0.0.1:11434/v1/")
    assert local is not None
    assert (local.kind, local.base_url) == ("openai", "http://127.0.0.1:11434/v1")
    secret = chosen({"GEMINI_API_KEY": "very-secret"})
    assert "very-secret" not in repr(secret)


def test_an_openai_key_is_never_sent_in_clear_text_by_default() -> None:
    environment = {"OPENAI_API_KEY": "k", "MINE": "m"}
    plain = chosen(environment, openai_base_url="http://127.0.0.1:1234/v1")
    secure = chosen(environment, openai_base_url="https://example.org/v1")
    named = chosen(environment, openai_base_url="http://127.0.0.1:1234/v1", openai_api_key_env="MINE")
    assert [backend.api_key for backend in (plain, secure, named) if backend] == [None, "k", "m"]


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({"backend": "gemini"}, "GEMINI_API_KEY"),
        ({"backend": "vertex"}, "GOOGLE_CLOUD_PROJECT"),
        ({"backend": "openai"}, "--openai-base-url"),
        ({"backend": "script"}, "--script"),
        ({"openai_base_url": "http://x", "script": Path("s")}, "give one"),
        ({"backend": "gemini", "openai_base_url": "http://x"}, "give one"),
        ({"gemini_base_url": "ftp://x"}, "http"),
        ({"gemini_base_url": "http://user:password@x"}, "without user"),
        ({"openai_base_url": "http://x", "openai_api_key_env": "UNSET"}, "UNSET"),
    ],
)
def test_a_contradictory_or_incomplete_choice_says_what_is_needed(flags: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        chosen(**flags)


def test_the_defaults_and_the_vertex_configuration_are_what_the_sdk_has(tmp_path: Path) -> None:
    from antigravity_engine.loading import load_sdk

    load_sdk()
    from google.antigravity import models, types

    from antigravity_engine import content, sdk
    from antigravity_engine.plan import Gate, Plan

    assert backends.GEMINI_DEFAULT_MODELS[0] == models.DEFAULT_MODEL
    assert content.IMAGE_TYPES <= types.SUPPORTED_IMAGE_MIMES

    async def nothing(_: Any) -> bool:
        return False

    for backend in (
        backends.Backend("vertex", project="p", location="l"),
        backends.Backend("vertex", api_key="e"),
        backends.Backend("gemini", api_key="g"),
    ):
        plan = Plan(
            "0" * 32, backend, "m", "system", "/", (), frozenset(), False, tmp_path, tmp_path, tmp_path, 9, 0, 0, {}
        )
        config = sdk._configure(plan, Gate(nothing, nothing, nothing, nothing))
        (target,) = config.models
        target.endpoint.validate_endpoint()
        assert target.name == "m"
        assert isinstance(
            target.endpoint, types.VertexEndpoint if backend.kind == "vertex" else types.GeminiAPIEndpoint
        )
        assert (target.endpoint.api_key or "") == (backend.api_key or "")
        assert config.capabilities.enable_subagents is False
        assert config.capabilities.enabled_tools == []


def test_the_harness_gets_no_keys_finds_google_credentials_and_never_proxies_loopback(tmp_path: Path) -> None:
    from antigravity_engine import sdk

    known = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    known.parent.mkdir(parents=True)
    known.write_text("{}")
    given = {"HOME": str(tmp_path), "GEMINI_API_KEY": "k", "OPENAI_API_KEY": "k", "NO_PROXY": "intranet", "KEEP": "1"}
    environment = sdk.harness_environment(given)
    assert "k" not in environment.values()
    assert environment["GOOGLE_APPLICATION_CREDENTIALS"] == str(known)
    assert environment["NO_PROXY"] == "intranet,127.0.0.1,localhost,::1"
    assert environment["no_proxy"] == "127.0.0.1,localhost,::1"
    assert environment["KEEP"] == "1"


@pytest.mark.requirement("X-001")
async def test_an_openai_compatible_end_point_with_a_key_lists_answers_and_sees_images(tmp_path: Path) -> None:
    with openai_endpoint() as endpoint:
        flags = ("--openai-base-url", endpoint.url, "--openai-api-key-env", "MINE")
        async with engine(tmp_path, *flags, env={"MINE": "the-key"}) as peer:
            await peer.initialize()
            created = await peer.request("session/new", {"cwd": "/", "mcpServers": []})
            assert [choice["value"] for choice in created["configOptions"][0]["options"]] == ["tiny", "huge"]
            session = created["sessionId"]
            image = {"type": "image", "mimeType": "image/png", "data": DOT}
            result = await peer.prompt(session, "look", image)
            assert peer.text() == "local answer"
            assert result["usage"]["totalTokens"] == 11
            assert {entry["key"] for entry in endpoint.received} == {"Bearer the-key"}
            body = endpoint.received[-1]["body"]
            assert body["model"] == "tiny"
            assert "tools" not in body or body["tools"] == []
            assert f"data:image/png;base64,{DOT}" in str(body["messages"])
            for status, kind in ((429, "quota"), (500, "model_http"), (401, "model_http")):
                endpoint.status = status
                with pytest.raises(RpcError) as caught:
                    await peer.prompt(session, "and now")
                assert (caught.value.type, caught.value.data["status"]) == (kind, status)
                assert "remote words" not in f"{caught.value} {caught.value.data}"
            endpoint.status = 200
            assert (await peer.prompt(session, "better"))["stopReason"] == "end_turn"
            assert "look" in str(endpoint.received[-1]["body"]["messages"])


@pytest.mark.requirement("X-001")
async def test_a_gemini_compatible_end_point_with_a_key_and_its_catalogue(tmp_path: Path) -> None:
    script = parse_script("models: [one, gemini-3.8-flash]\nrules:\n  - text: from {{model}}\n")
    with ScriptServer(script, key="g-key") as server:
        flags = ("--gemini-base-url", server.base_url)
        async with engine(tmp_path, *flags, env={"GEMINI_API_KEY": "g-key"}) as peer:
            await peer.initialize()
            created = await peer.request("session/new", {"cwd": "/", "mcpServers": []})
            option = created["configOptions"][0]
            assert option["currentValue"] == "gemini-3.8-flash"
            assert {choice["value"] for choice in option["options"]} == {"one", "gemini-3.8-flash"}
            await peer.prompt(created["sessionId"], "hello")
            assert peer.text() == "from gemini-3.8-flash"


async def test_an_openai_end_point_that_is_down_is_told_at_session_new(tmp_path: Path) -> None:
    async with engine(tmp_path, "--openai-base-url", "http://127.0.0.1:9/v1") as peer:
        await peer.initialize()
        with pytest.raises(RpcError) as caught:
            await peer.new_session()
        assert caught.value.type == "model_unreachable"


@pytest.mark.parametrize(
    ("text", "status", "kind"),
    [
        ("Error 429, Message: secret, Details: [map[retryDelay:3s]]", 0, "quota"),
        ("Error 503, Message: secret", 0, "model_http"),
        ("whatever", 404, "model_http"),
        ('Post "http://secret": dial tcp 127.0.0.1:9: connect: connection refused', 0, "model_unreachable"),
        ("iterateResponseStream: error unmarshalling data: unexpected end of JSON input", 0, "model_output"),
        ("failed to construct executor: unexpected end of JSON input", 0, "mcp_unavailable"),
        ("unexpected end of JSON input", 0, "mcp_unavailable"),
        ("agent max token limit error secret", 0, "context_limit"),
        ("MCP load failed: secret", 0, "mcp_unavailable"),
        ("something nobody has seen: secret", 0, "internal"),
    ],
)
def test_the_harness_errors_are_classified_and_their_text_stays_inside(text: str, status: int, kind: str) -> None:
    error = errors.classify(text, status=status)
    assert error.type == kind
    assert "secret" not in str(error.to_wire())

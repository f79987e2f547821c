"""What goes wrong on either side: every failure is typed, tells nothing that it must not, and ends nothing else."""

import asyncio
import json
from typing import Any

import pytest
from helpers.conversation import BOUND
from helpers.sidecar import SCRIPTED, Host, RemoteError, sidecar
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antigravity_acp.contract import ERRORS, Finish, GenerateOptions, StreamChunk, TextDelta, user
from antigravity_acp.limits import MAX_FRAME_BYTES
from antigravity_acp.sidecar.frames import schema

DONE = {"finish": "stop"}
SECRET = "words of somebody else"


def scene(*steps: dict[str, Any]) -> GenerateOptions:
    return GenerateOptions(provider="antigravity-acp", model="m1", messages=(user(json.dumps(steps)),))


def text(chunks: list[StreamChunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def failure(host: Host, *steps: dict[str, Any]) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        await host.stream(scene(*steps)).end()
    return caught.value


async def test_every_code_of_an_adapter_arrives_with_its_facts() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        for code in ERRORS:
            error = await failure(host, {"say": "some"}, {"raise": code, "retry": 1500, "status": 429})
            assert error.data == {"code": code, "retryAfterMs": 1500, "status": 429}
            assert error.number == (-32602 if code == "INVALID_REQUEST" else -32000)
            assert error.message
        assert (await failure(host, {"raise": "ACP_TIMEOUT"})).data == {"code": "ACP_TIMEOUT"}


async def test_anything_else_is_unknown_and_says_nothing() -> None:
    async with sidecar(argv=SCRIPTED, stderr=asyncio.subprocess.PIPE) as host:
        error = await failure(host, {"crash": SECRET})
        assert (error.number, error.data) == (-32000, {"code": "UNKNOWN"})
        assert SECRET not in error.message
        await host.stream(scene(DONE)).end()
        assert [line["level"] for line in host.logs] == ["error"]
        assert SECRET not in str(host.logs)
    assert host.process.stderr is not None
    stderr = (await host.process.stderr.read()).decode()
    assert "RuntimeError" in stderr
    assert SECRET not in stderr


async def test_a_finish_that_the_adapter_itself_gives_is_passed_on_as_it_is() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        for kind, code in (("error", "ACP_QUOTA"), ("aborted", "ABORTED"), ("max-tokens", None)):
            step = {"finish": kind, **({"code": code} if code else {})}
            last = (await host.stream(scene(step)).end())[-1]
            assert isinstance(last, Finish)
            assert last.reason.kind == kind
            assert (last.reason.failure.code if last.reason.failure else None) == code


async def test_what_a_library_prints_or_reads_by_habit_does_not_touch_the_channel() -> None:
    async with sidecar(argv=SCRIPTED, stderr=asyncio.subprocess.PIPE) as host:
        await host.stream(scene({"print": SECRET}, {"read": True}, {"log": "ours"}, DONE)).end()
        await host.request("diagnostics")
        assert host.logs == [{"level": "warning", "message": "ours"}]
    assert host.process.stderr is not None
    stderr = (await host.process.stderr.read()).decode()
    assert stderr.count(SECRET) == 2
    assert "WARNING antigravity_acp.test: ours\n" in stderr
    assert "ERROR somebody.else: (a message of this library)\n" in stderr


async def test_a_failing_catalogue_is_an_error_with_its_code() -> None:
    async with sidecar({"args": ["models:ACP_AUTH_REQUIRED"]}, SCRIPTED) as host:
        with pytest.raises(RemoteError) as caught:
            await host.request("models/list")
        assert caught.value.data == {"code": "ACP_AUTH_REQUIRED"}
    async with sidecar(argv=SCRIPTED) as host:
        assert await host.request("models/list") == {
            "models": [
                {"provider": "antigravity-acp", "id": "m1", "name": "Model 1", "inputModalities": ["text"]},
                {"provider": "antigravity-acp", "id": "m2", "name": "Model 2"},
            ]
        }


async def test_requests_that_are_wrong_name_the_field_and_no_value() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        host.keep = False
        options = scene(DONE).to_wire()
        cases: list[tuple[str, Any, int, str]] = [
            ("nonsense", {}, -32601, "no such method"),
            ("stream/ack", {"stream": "x", "chunks": 1}, -32601, "no such method"),
            ("models/resolve", {"model": [SECRET]}, -32602, "params.model must be string"),
            ("models/resolve", [SECRET], -32602, "params must be object"),
            ("stream/start", {"stream": "x"}, -32602, "params.options is missing"),
            ("stream/start", {"stream": "", "options": options}, -32602, "params.stream does not meet `minLength`"),
            (
                "stream/start",
                {"stream": "x", "options": options | {"messages": [{"role": SECRET}]}},
                -32602,
                "params.options.messages[0].role must be one of",
            ),
            (
                "stream/start",
                {"stream": "x", "options": options | {"messages": [{"role": "user", "content": [{"type": "text"}]}]}},
                -32602,
                "messages[0].content[0]",
            ),
            ("control/decide", {"call": {"id": "c", "name": 1}}, -32602, "params.call.name must be string"),
        ]
        for method, params, number, words in cases:
            with pytest.raises(RemoteError) as caught:
                await host.request(method, params)
            assert (caught.value.number, words in caught.value.message) == (number, True), caught.value.message
            assert SECRET not in caught.value.message
        assert (await host.request("diagnostics"))["sidecar_invalid_frames"] == len(cases)


async def test_a_name_or_an_id_that_is_in_use_is_refused_and_the_first_owner_is_left_alone() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        first = host.stream(scene({"wait": True}), "same")
        with pytest.raises(RemoteError, match=r"params\.stream is the name"):
            await host.ask("stream/start", {"stream": "same", "options": scene(DONE).to_wire()})
        host.ask("stream/start", {"stream": "other", "options": scene({"wait": True}).to_wire()}, key="twice")
        with pytest.raises(RemoteError, match="id is open"):
            await host.ask("models/list", key="twice")
        first.cancel()
        assert await first.code() == "ABORTED"
        host.notify("$/cancel", id="twice")
        host.notify("$/cancel", id="long gone")
        host.notify("stream/cancel", stream="long gone")
        host.notify("stream/ack", stream="long gone", chunks=1)
        numbers = await host.request("diagnostics")
        assert (numbers["sidecar_unknown_cancels"], numbers["sidecar_unknown_acks"]) == (1, 1)


async def test_lines_that_are_no_requests_are_answered_or_counted_and_end_nothing() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        for line, number in (
            (b"{nonsense", -32700),
            (b'"\xff\xfe"', -32700),
            (b"[" * 100_000, -32700),
            (b'{"a": NaN}', -32700),
            (b"[1]", -32600),
            (b"12", -32600),
            (b'{"jsonrpc": "2.0", "id": 1}', -32600),
            (b'{"jsonrpc": "2.0", "id": null, "method": "diagnostics"}', -32600),
            (b'{"jsonrpc": "2.0", "id": true, "method": "diagnostics"}', -32600),
            (b'{"jsonrpc": "2.0", "id": 90071992547409920, "method": "diagnostics"}', -32600),
        ):
            host.write(line + b"\n")
            error = (await host.stray())["error"]
            assert (error["code"], error["data"]["code"]) == (number, "SIDECAR_PROTOCOL")
        for line in (b"", b" \t\r", b'{"id": 5, "result": {}}', b'{"method": "whatever"}', b'{"method": "stream/ack"}'):
            host.write(line + b"\n")
        numbers = await host.request("diagnostics")
        assert numbers["sidecar_noise_lines"] == 2
        assert numbers["sidecar_unexpected_answers"] == 1
        assert numbers["sidecar_unknown_notifications"] == 1
        assert numbers["sidecar_invalid_notifications"] == 1
        assert host.logs == [{"level": "warning", "message": "stream/ack is not valid: params.stream is missing."}]


async def test_half_of_a_surrogate_pair_fails_nothing_in_either_direction() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        # JSON.stringify writes a cut emoji as an escape; json.dumps of the helper does the same.
        assert (await host.request("models/resolve", {"model": "caf\u00e9 \ud83d"}))["id"] == "caf\u00e9 \ufffd"
        chunks = await host.stream(scene({"say": "caf\u00e9 \ud83d"}, DONE)).end()
        assert text(chunks) == "caf\u00e9 ?"


@pytest.mark.parametrize("ended", [True, False], ids=["whole line", "without its end"])
async def test_a_line_larger_than_a_frame_ends_the_conversation_and_says_why(ended: bool) -> None:
    host = await Host.start(SCRIPTED)
    await host.initialize()
    running = host.stream(scene({"wait": True}))
    before = host.family()[0].memory_info().rss
    host.write(b'{"x": "' + b"x" * MAX_FRAME_BYTES + (b'"}\n' if ended else b""))
    error = (await host.stray())["error"]
    assert (error["code"], error["data"]["code"]) == (-32600, "SIDECAR_PROTOCOL")
    assert str(MAX_FRAME_BYTES) in error["message"]
    assert await running.code() == "ABORTED"
    assert before > 0
    assert await host.exit_code() == 1
    await host.aclose()


async def test_a_request_of_almost_a_whole_frame_is_served_and_an_answer_beyond_one_is_a_typed_failure() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        host.keep = False
        options = scene(DONE).to_wire()
        options["system"] = "x" * (MAX_FRAME_BYTES - 10_000)
        stream = host.stream(options)
        await stream.end()
        assert (await failure(host, {"big": MAX_FRAME_BYTES}, DONE)).code == "SIDECAR_FRAME_TOO_LARGE"
        assert (await host.request("diagnostics"))["sidecar_streams"] == 0


def schema_methods() -> list[str]:
    """Every method of a host but the one that would end the conversation."""
    frames = schema()["definitions"]["host"]["anyOf"]
    return [name for frame in frames if (name := frame["properties"]["method"]["const"]) != "shutdown"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_methods = st.sampled_from([*schema_methods(), "\x00", "\ud800"])
_frames = st.fixed_dictionaries(
    {"method": _methods | _json},
    optional={"id": st.integers() | st.text(max_size=4) | _json, "params": _json, "jsonrpc": _json, "result": _json},
)
_lines = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(str.encode),
    (_json | _frames).map(lambda one: json.dumps(one).encode()),
)


async def test_no_line_kills_it() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        host.keep = False
        drawn: list[bytes] = []

        @settings(max_examples=250, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        @given(_lines)
        def draw(line: bytes) -> None:
            drawn.append(line.replace(b"\n", b""))

        draw()
        host.write(b"\n".join(drawn) + b"\n")
        async with asyncio.timeout(BOUND):
            assert (await host.ask("diagnostics", key="the last one"))["sidecar_streams"] == 0
        host.keep = True

"""JSON of a tool call, read strictly and kept as it came.

The host gets the text of the arguments exactly as the agent sent it: long integers, long decimals and escapes survive,
because the text is cut out of the body and never written again. Reading is only for judging it.
Never: repairs anything. Repeated keys, ``NaN``, ``Infinity`` and lone surrogates are refused, since a reader behind us
may understand them differently from our validator.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

import msgspec


class NotStrictJsonError(ValueError):
    """The text is not JSON that every reader understands alike. The message holds nothing of it."""


def read_strictly(text: str) -> Any:
    """Decode JSON with every number exact (``int`` or ``Decimal``).

    :raises NotStrictJsonError: with the reason.
    """
    try:
        value = _DECODER.decode(text)
        if _SURROGATE.search(text) and _has_half_pair(value):
            raise NotStrictJsonError("a text holds half of a surrogate pair, which is no character")
        return value
    except RecursionError:
        raise NotStrictJsonError("it is nested too deeply") from None
    except NotStrictJsonError:
        raise
    except (ValueError, ArithmeticError):
        raise NotStrictJsonError("it is not valid JSON, or holds a number beyond all bounds") from None


def rename_keys(text: str, aliases: Mapping[str, str]) -> str:
    """Give top-level keys of an object their original names; values keep their text.

    :param text: a JSON object that :func:`read_strictly` accepted.
    :param aliases: exported name to original name.
    """
    members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    parts = (f"{json.dumps(aliases.get(key, key))}:{bytes(raw).decode()}" for key, raw in members.items())
    return "{" + ",".join(parts) + "}"


def _has_half_pair(value: object) -> bool:
    queue = [value]
    while queue:
        item = queue.pop()
        if isinstance(item, str):
            if any("\ud800" <= char <= "\udfff" for char in item):
                return True
        elif isinstance(item, dict):
            queue.extend(item)
            queue.extend(item.values())
        elif isinstance(item, list):
            queue.extend(item)
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotStrictJsonError("a property is given twice")
    return members


def _no_constant(_: str) -> NoReturn:
    raise NotStrictJsonError("NaN and Infinity are not JSON")


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Decimal, parse_constant=_no_constant)

"""The rules that the `control` commands work on: from files that are named, or from where the host looks.

Owns: reading of settings in JSON and YAML, and the one policy of a command line. Reads files; writes none.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from antigravity_acp.governing.sources import check_rules, sources_of
from antigravity_acp.settings import Settings
from antigravity_control import Policy, RuleFault, Scope, Source, read_file, standard_sources
from antigravity_control.sources.malformed import why_no_yaml
from antigravity_control.sources.settings import FILE_LIMIT, joined, repeated

from .failures import SETUP, CliError
from .options import AgentFlags

_YAML: Final = (".yaml", ".yml")


def home_folder() -> str | None:
    """What ``~`` stands for; ``None`` on a machine that does not know."""
    try:
        return str(Path.home())
    except RuntimeError:
        return None


def load(path: str) -> Source:
    """One file that a person named.

    :returns: its settings; what is wrong with the file as a whole is a fault of the source.
    :raises CliError: ``INVALID_SETTINGS``: it is not there, or it is YAML and nothing here reads that.
    """
    if not os.path.lexists(path):
        raise CliError("INVALID_SETTINGS", f"There is no file {path}.")
    found = _load_yaml(path) if path.lower().endswith(_YAML) else read_file(path, "global")
    # Grants of a project and of all surfaces are told by their layout; only other files may set a mode.
    scope: Scope = "global"
    if "permissionGrants" in found.data:
        scope = "project"
    elif "userSettings" in found.data:
        scope = "shared"
    file = os.path.abspath(path)
    # A list of this plugin's settings may hold plain tool names; the vendor's program knows none.
    names = scope == "global" and not _is_theirs(file)
    return Source(scope, found.data, file, tuple(replace(each, scope=scope) for each in found.faults), names=names)


def _is_theirs(file: str) -> bool:
    home = home_folder()
    theirs = standard_sources(home) if home is not None else ()
    return any(os.path.realpath(each.file or "") == os.path.realpath(file) for each in theirs)


def _load_yaml(path: str) -> Source:
    try:
        import yaml
    except ImportError:
        message = f"{path} is YAML, which needs PyYAML: `pip install pyyaml`, or write the file as JSON."
        raise CliError("INVALID_SETTINGS", message) from None
    reason = None
    data: Any = None
    try:
        # Anything else may never come to an end.
        raw = _head(path) if os.path.isfile(path) else b""
        if len(raw) > FILE_LIMIT:
            reason = f"the file has more than {FILE_LIMIT} bytes"
        else:
            data = _parsed(raw)
    except OSError:
        reason = "the file cannot be read"
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = f"the file {why_no_yaml(error)}"
    if reason is None and not isinstance(data, dict):
        reason = "expected an object"
    if reason is not None:
        return Source("global", {}, path, (RuleFault(path, "$", reason, "global", "unreadable"),))
    return Source("global", data, path, repeated(data, "global", path))


def _parsed(raw: bytes) -> Any:
    """YAML as JSON would be: a key that stands twice is noticed."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, Any]:
        count = sum(key.tag != "tag:yaml.org,2002:merge" for key, _ in node.value)
        loader.flatten_mapping(node)
        pairs = [[loader.construct_object(each, deep=True) for each in pair] for pair in node.value]
        try:
            made = joined([(key, value) for key, value in pairs[len(pairs) - count :]])
            for key, value in pairs[: len(pairs) - count]:  # merged in; what stands here itself comes first
                made.setdefault(key, value)
        except TypeError as error:  # a list as a key
            raise yaml.YAMLError("a key is no text") from error
        return made

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    return yaml.load(raw, Loader)  # noqa: S506 - a safe loader


def _head(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(FILE_LIMIT + 1)


def sources(files: Sequence[str], workspace: str | None = None, plugin: str | None = None) -> list[Source]:
    """The settings of ``files``, else those that hold in the Python host: its settings, the rules that a person wrote
    with an answer, the vendor's files, and the grants of the workspace's project.

    :param workspace: a folder, relative to this one; this one when ``None``.
    :param plugin: a file with the plugin's settings, as ``chat --settings`` takes it; its settings are left alone when
        ``None``.
    :raises CliError: ``INVALID_SETTINGS``, as :func:`load`; ``USAGE``. :raises LlmError: the plugin's settings are not
        valid.
    """
    if files and plugin is not None:
        raise CliError("USAGE", "--plugin goes with the files where the host looks; name no other files with it.")
    if files:
        return [load(file) for file in files]
    home = home_folder()
    if home is None:
        return []
    flags = AgentFlags(engine=None, command=None, args=(), script=None, settings_file=plugin)
    settings = Settings.from_mapping(flags.settings())
    check_rules(settings)
    named = [os.path.abspath(plugin)] if plugin is not None else []
    return list(sources_of(settings, os.path.abspath(workspace or os.curdir), home=Path(home), settings_files=named))


def read_from(found: Iterable[Source]) -> list[str]:
    """The files among ``found`` that are there and hold rules."""
    files = [source.file for source in found if source.file is not None and not source.kept]
    return [file for file in dict.fromkeys(files) if os.path.isfile(file)]


def whole(found: Iterable[RuleFault]) -> None:
    """Refuse to go on when rules may be missing: among them could be one that denies.

    :raises CliError: ``INVALID_SETTINGS``, with file and reason.
    """
    for fault in found:
        if fault.effect == "unreadable":
            raise CliError("INVALID_SETTINGS", f"Rules cannot be read, so nothing is decided: {fault}.", status=SETUP)


def policy(
    files: Sequence[str], workspace: str | None, plugin: str | None = None, *, headless: bool
) -> tuple[Policy, list[str]]:
    """The policy in force, and the files that its rules come from.

    :param workspace: a folder, relative to this one; this one when ``None``. :param plugin: as :func:`sources`.
    :raises CliError: ``INVALID_SETTINGS``: rules are missing. :raises LlmError: as :func:`sources`.
    """
    found = sources(files, workspace, plugin)
    made = Policy.compile(
        found,
        workspace=os.path.abspath(workspace or os.curdir),
        mode="headless" if headless else "interactive",
        home=home_folder(),
    )
    whole(made.faults)
    return made, read_from(found)

"""The rules that the `control` commands work on: from files that are named, or from where the host looks.

Owns: reading of settings in JSON and YAML, and the one policy of a command line. Reads files; writes none.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from antigravity_acp.governing.sources import default_rules_file, own_rules, project_rules, sources_of
from antigravity_acp.settings import Settings
from antigravity_control import Policy, RuleFault, Scope, Source, read_file
from antigravity_control.settings import FILE_LIMIT, joined, repeated

from .failures import SETUP, CliError

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
    return Source(scope, found.data, os.path.abspath(path), found.faults)


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
    except (yaml.YAMLError, ValueError, RecursionError):
        reason = "the file is not YAML"
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


def sources(files: Sequence[str], workspace: str | None = None) -> list[Source]:
    """The settings of ``files``, else those that hold in the Python host with its settings left alone: the rules that a
    person wrote with an answer, the vendor's files, and the grants of the workspace's project.

    :param workspace: a folder, relative to this one; this one when ``None``.
    :raises CliError: ``INVALID_SETTINGS``, as :func:`load`.
    """
    if files:
        return [load(file) for file in files]
    home = home_folder()
    if home is None:
        return []
    settings = Settings.from_mapping()
    found = sources_of(settings, own_rules(settings), Path(home), default_rules_file())
    return [*found, *project_rules(Path(home), os.path.abspath(workspace or os.curdir))]


def read_from(found: Iterable[Source]) -> list[str]:
    """The files among ``found`` that are there."""
    return [source.file for source in found if source.file is not None and os.path.isfile(source.file)]


def whole(found: Iterable[RuleFault]) -> None:
    """Refuse to go on when rules may be missing: among them could be one that denies.

    :raises CliError: ``INVALID_SETTINGS``, with file and reason.
    """
    for fault in found:
        if fault.effect == "unreadable":
            raise CliError("INVALID_SETTINGS", f"Rules cannot be read, so nothing is decided: {fault}.", status=SETUP)


def policy(files: Sequence[str], workspace: str | None, *, headless: bool) -> tuple[Policy, list[str]]:
    """The policy in force, and the files that its rules come from.

    :param workspace: a folder, relative to this one; this one when ``None``.
    :raises CliError: ``INVALID_SETTINGS``: rules are missing.
    """
    found = sources(files, workspace)
    made = Policy.compile(
        found,
        workspace=os.path.abspath(workspace or os.curdir),
        mode="headless" if headless else "interactive",
        home=home_folder(),
    )
    whole(made.faults)
    return made, read_from(found)

"""Whether the SDK and its harness are installed, found without importing them: the import takes a second."""

import importlib.metadata
import os
from pathlib import Path

from antigravity_engine.options import UsageError

_DISTRIBUTION = "google-antigravity"
_HARNESSES = ("google/antigravity/bin/localharness", "google/antigravity/bin/localharness.exe")


def find_harness(environment: dict[str, str]) -> str:
    """The version of the SDK. Raises `UsageError` when the SDK or a harness that can be run is missing."""
    try:
        distribution = importlib.metadata.distribution(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(f"{_DISTRIBUTION} is not installed: pip install 'dsh-antigravity-acp[engine]'") from None
    explicit = environment.get("ANTIGRAVITY_HARNESS_PATH")
    found = (
        [Path(explicit)]
        if explicit
        else [
            Path(str(file.locate())) for file in distribution.files or () if str(file).replace("\\", "/") in _HARNESSES
        ]
    )
    if not any(path.is_file() and os.access(path, os.X_OK) for path in found):
        raise UsageError(f"the harness of {_DISTRIBUTION} {distribution.version} is missing for this platform")
    return distribution.version

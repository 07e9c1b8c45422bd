"""The command that installs an extra of this package, for messages about a package that is missing."""

from __future__ import annotations

import json
from shlex import quote
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["pip_install"]


def pip_install(extra: str) -> str:
    """A shell command; it installs from the clone, wheel, repository or index that counterpoise was installed from."""
    name, origin = f"counterpoise[{extra}]", _origin()
    url = origin.get("url")
    if not url:
        return f"pip install {quote(name)}"
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e {quote(f'{unquote(urlsplit(url).path)}[{extra}]')}"
    vcs = origin.get("vcs_info", {})
    revision = f"@{vcs['requested_revision']}" if vcs.get("requested_revision") else ""
    folder = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    source = f"{vcs['vcs']}+{url}{revision}" if vcs.get("vcs") else url
    return f"pip install {quote(f'{name} @ {source}{folder}')}"


def _origin() -> dict[str, Any]:
    """The file `direct_url.json` (PEP 610) of the installed package; empty after an installation from an index."""
    from importlib import metadata  # 20 ms that a consumer does without

    package = next(iter(metadata.distributions(name="counterpoise")), None)
    try:
        origin = json.loads((package and package.read_text("direct_url.json")) or "{}")
    except ValueError:
        return {}
    return origin if isinstance(origin, dict) else {}

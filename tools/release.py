"""Say what a release of this checkout still lacks; exit code 1 if anything.

    python -m tools.release v0.1.0

It needs nothing but the standard library.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLACEHOLDER: Final = "SECURITY_CONTACT"
WITH_CONTACT: Final = ("SECURITY.md", "CODE_OF_CONDUCT.md")


def missing(tag: str, root: Path = ROOT) -> list[str]:
    """Return a line for each thing that must be set before ``tag`` is published."""
    source = (root / "src" / "mpgd" / "__init__.py").read_text()
    version = re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE)[0]
    heading = re.findall(r"^## .*", (root / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lines = [
        f"{name}: {PLACEHOLDER} must be an address"
        for name in WITH_CONTACT
        if PLACEHOLDER in (root / name).read_text()
    ]
    if tag != f"v{version}":
        lines.append(f"the tag must be v{version}, got {tag}")
    if not re.fullmatch(rf"## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading):
        lines.append(f"CHANGELOG.md must begin with [{version}] and its date, got {heading!r}")
    if "Repository" not in project["urls"]:
        lines.append("pyproject.toml: [project.urls] must name the Repository")
    if not re.search(r"^repo_url: ", (root / "mkdocs.yml").read_text(), re.MULTILINE):
        lines.append("mkdocs.yml: repo_url must be the address of the repository")
    return lines


if __name__ == "__main__":
    found = missing(sys.argv[1])
    print("\n".join(found) or "nothing is missing")
    sys.exit(bool(found))

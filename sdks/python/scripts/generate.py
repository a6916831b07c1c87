"""Writes the generated parts of the package, or checks them.

- `src/lukasa/models.py`: the types of the wire, from the API description
- `src/lukasa/_sync/`: the client without `asyncio`, from `src/lukasa/_async/`

With `--check` it writes nothing and fails if a file is out of date.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/lukasa"
PROGRAMS = Path(sys.executable).parent

# Words of asynchronous code, with those of synchronous code. `Async` at the beginning of a name is dropped.
WORDS = {
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\bAsync(?=[A-Z])": "",
    r"\basyncio\.sleep\b": "time.sleep",
    r"^import asyncio\n": "",
    r"\b__a(enter|exit)__\b": r"__\1__",
    r"\ba(close|iter_bytes)\b": r"\1",
    r"\b_async\b": "_sync",
}
NOTICE = "# Generated from src/lukasa/_async by scripts/generate.py.\n"


def main() -> int:
    """Generates into a temporary folder, then compares or copies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder)
        _models(generated / "models.py")
        _synchronous(generated / "_sync")
        stale = [
            file
            for file in sorted(generated.rglob("*.py"))
            if _text(PACKAGE / file.relative_to(generated)) != file.read_text()
        ]
        for file in stale:
            target = PACKAGE / file.relative_to(generated)
            if check:
                print(f"out of date: {target.relative_to(ROOT)}", file=sys.stderr)
            else:
                target.parent.mkdir(exist_ok=True)
                target.write_text(file.read_text())
    return 1 if check and stale else 0


def _models(file: Path) -> None:
    subprocess.run([PROGRAMS / "datamodel-codegen", "--output", file], cwd=ROOT, check=True)


def _synchronous(folder: Path) -> None:
    folder.mkdir()
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        (folder / source.name).write_text(synchronous(source.read_text()))
    for command in (["check", "--fix", "--select", "I,F401", "--quiet"], ["format", "--quiet"]):
        configured = ["--config", str(ROOT / "pyproject.toml"), str(folder)]
        subprocess.run([PROGRAMS / "ruff", *command, *configured], cwd=ROOT, check=True)


def synchronous(text: str) -> str:
    """Returns the synchronous form of asynchronous code."""
    for pattern, replacement in WORDS.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return NOTICE + text


def _text(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


if __name__ == "__main__":
    sys.exit(main())

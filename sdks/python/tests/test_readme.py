"""The examples of the README have correct types, and run as they stand, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import PATIENCE, TOKEN, Daemon
from model import scripted_model

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_readme_have_correct_types(tmp_path: Path) -> None:
    files = [tmp_path / f"example_{number}.py" for number in range(len(EXAMPLES))]
    for file, example in zip(files, EXAMPLES, strict=True):
        file.write_text(example)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--no-error-summary", *files],
        env={**os.environ, "MYPYPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stdout + checked.stderr


def test_the_examples_of_the_readme_run(daemon: Daemon) -> None:
    assert len(EXAMPLES) >= 5
    view = {"command": "view", "path": "/memories"}
    with scripted_model(view) as model:
        environment = {
            **daemon.environment(),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "LUKASA_TOKEN": TOKEN,
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
        }
        for example in EXAMPLES:
            ended = subprocess.run(
                [sys.executable, "-c", example],
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            assert (ended.returncode, ended.stderr) == (0, ""), f"{example}\n{ended.stderr}"

"""Runs the example of docs/EMBEDDING.md that needs no package: argument 1 is the document, stdin has the calls as JSON."""

import json
import re
import sys
from pathlib import Path

document = Path(sys.argv[1]).read_text(encoding="utf-8")
examples = re.findall(r"^```python\n(.*?)^```$", document, re.DOTALL | re.MULTILINE)
(example,) = (example for example in examples if "class LukasaMemory(" in example)
scope = {}
exec(compile(example, sys.argv[1], "exec"), scope)
tool = scope["LukasaMemory"]()

answers = []
for arguments in json.load(sys.stdin):
    try:
        answers.append({"ok": True, "text": tool.call(arguments)})
    except scope["ToolError"] as refusal:
        answers.append({"ok": False, "text": refusal.content})
json.dump({"declared": tool.to_dict(), "answers": answers}, sys.stdout)

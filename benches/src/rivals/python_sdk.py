"""Times one command of the Python SDK's memory tool on local files; prints nanoseconds, a line each.

Arguments: the command, the folder to keep memories in, a file with one text a line.
"""

import os
import sys
import time

from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from anthropic.types import beta

command, folder, file = sys.argv[1:]
with open(file, encoding="utf-8") as lines:
    texts = [line.rstrip("\n").replace("\\n", "\n") for line in lines]
os.makedirs(folder)
tool = BetaLocalFilesystemMemoryTool(base_path=folder)


def path(number):
    return f"/memories/dir{number % 10}/note{number}.md"


def create(number):
    return tool.create(
        beta.BetaMemoryTool20250818CreateCommand(
            command="create", path=path(number), file_text=texts[number]
        )
    )


def view(number):
    return tool.view(beta.BetaMemoryTool20250818ViewCommand(command="view", path=path(number)))


def str_replace(number):
    return tool.str_replace(
        beta.BetaMemoryTool20250818StrReplaceCommand(
            command="str_replace",
            path=path(number),
            old_str="the word is XYZZY.",
            new_str="the word is other.",
        )
    )


if command != "create":
    for number in range(len(texts)):
        create(number)
    os.sync()
timed = {"create": create, "view": view, "str_replace": str_replace}[command]
taken = []
for number in range(len(texts)):
    started = time.perf_counter_ns()
    timed(number)
    taken.append(time.perf_counter_ns() - started)
print("\n".join(map(str, taken)))

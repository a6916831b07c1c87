"""The value that a client gets for a task that it submitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from lukasa.models import Task

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Submitted(Generic[ResultT]):
    """A task that the daemon accepted. `tasks.wait` takes it and returns a result of its type argument."""

    task: Task
    """The state of the task when it was accepted."""

    @property
    def task_id(self) -> str:
        """The id of the task, which any client may store and pass to `tasks.wait`."""
        return self.task["taskId"]

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from conftest import PATIENCE, SECRET, Daemon
from lukasa import (
    ApiError,
    BusyError,
    Client,
    DaemonUnreachableError,
    DeadlineError,
    LukasaError,
    NotFoundError,
    TaskFailedError,
    TaskUnfinishedError,
)


def test_tasks_are_submitted_waited_for_and_listed(lukasa: Client) -> None:
    remembered = lukasa.remember(
        "This project builds with make.", scope="project", context_mode="clean"
    )
    result = lukasa.tasks.wait(remembered)
    assert result["touchedScopes"] == ["project"]
    assert len(result["filesTouched"]) == 1
    state = lukasa.tasks.get(remembered)
    assert (state["status"], state["taskId"]) == ("completed", remembered.task_id)
    assert lukasa.tasks.wait(remembered.task_id) == result

    assert lukasa.tasks.wait(lukasa.dream())["dedupedEntries"] == 0
    request = lukasa.forget(
        "forget that this project builds with make", path=result["filesTouched"][0]
    )
    assert len(lukasa.tasks.wait(request)["removedEntries"]) == 1
    listed = lukasa.tasks.list(kind="forget")
    assert [(task["taskId"], task["status"]) for task in listed] == [(request.task_id, "completed")]


def test_a_task_that_failed_is_an_error_with_its_reason(lukasa: Client) -> None:
    task = lukasa.remember(f"The key is {SECRET}")
    with pytest.raises(TaskFailedError) as failed:
        lukasa.tasks.wait(task)
    assert failed.value.code == "screened"
    assert failed.value.task["taskId"] == task.task_id
    assert SECRET not in str(failed.value)
    with pytest.raises(ApiError) as blank:
        lukasa.remember(" ")
    assert (blank.value.status, blank.value.code) == (400, "invalid_content")
    with pytest.raises(NotFoundError) as unknown:
        lukasa.tasks.wait("remember-00000000-0000-4000-8000-000000000000")
    assert unknown.value.code == "remember_task_not_found"


@pytest.mark.parametrize("task_id", ["nope", "nope-1", "-1", "a/b", "?", "nope#1"])
def test_an_id_of_no_kind_is_that_of_no_task(lukasa: Client, task_id: str) -> None:
    for call in (lukasa.tasks.get, lukasa.tasks.wait, lukasa.tasks.cancel):
        with pytest.raises(NotFoundError) as unknown:
            call(task_id)
        assert (unknown.value.status, unknown.value.code) == (404, "task_not_found")
        assert repr(task_id) in str(unknown.value)


def test_an_id_is_one_segment_of_the_address(lukasa: Client) -> None:
    with pytest.raises(NotFoundError) as unknown:
        lukasa.tasks.get("remember-1/2?workspace=a#b")
    assert unknown.value.code == "remember_task_not_found"
    with pytest.raises(NotFoundError) as nowhere:
        lukasa.with_options(workspace="no/where").dream()
    assert nowhere.value.code == "workspace_not_found"


def test_an_empty_id_is_refused_before_a_request(lukasa: Client) -> None:
    calls: list[Callable[[], object]] = [
        lambda: lukasa.tasks.get(""),
        lambda: lukasa.tasks.wait(""),
        lambda: lukasa.tasks.cancel(""),
        lambda: lukasa.memories.revision(""),
        lambda: lukasa.with_options(workspace="").dream(),
    ]
    for call in calls:
        with pytest.raises(LukasaError, match="empty") as refused:
            call()
        assert (refused.value.code, refused.value.status) == ("invalid_id", None)


def test_a_task_that_waits_can_be_left_or_cancelled(daemon: Daemon) -> None:
    lukasa = daemon.client()
    lukasa.tasks.wait(lukasa.remember("I like tea."))
    with daemon.held_lane():
        left, cancelled = lukasa.dream(), lukasa.dream()
        begun = time.monotonic()
        with pytest.raises(TaskUnfinishedError) as late:
            lukasa.tasks.wait(left, timeout=0.3)
        assert 0.3 <= time.monotonic() - begun < PATIENCE
        assert isinstance(late.value, TimeoutError)
        assert late.value.task["status"] == "queued"
        assert lukasa.tasks.cancel(cancelled)["status"] == "failed"
        with pytest.raises(TaskFailedError) as failed:
            lukasa.tasks.wait(cancelled)
        assert failed.value.code == "cancelled"
    assert lukasa.tasks.wait(left)["dedupedEntries"] == 0
    assert lukasa.tasks.cancel(left.task_id)["status"] == "completed"


def test_a_full_lane_is_busy(daemon: Daemon) -> None:
    lukasa = daemon.client()
    lukasa.tasks.wait(lukasa.dream())
    with daemon.held_lane():
        tasks = [lukasa.dream() for _ in range(8)]
        with pytest.raises(BusyError) as full:
            lukasa.dream()
        assert (full.value.code, full.value.retry_after) == ("remember_queue_full", 1.0)
    for task in tasks:
        lukasa.tasks.wait(task)


def test_a_task_is_waited_for_while_the_daemon_restarts(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A client that finds the daemon by itself uses its socket, which stays the same on another port.
    monkeypatch.setenv("LUKASA_HOME", str(daemon.home))
    with Client(token=daemon.token) as lukasa:
        lukasa.tasks.wait(lukasa.remember("I like tea."))
        found: list[object] = []
        with daemon.held_lane():
            task = lukasa.remember("I drive a bus.")
            waiting = threading.Thread(
                target=lambda: found.append(lukasa.tasks.wait(task, timeout=PATIENCE))
            )
            waiting.start()
            daemon.kill()
        daemon.start()
        waiting.join(PATIENCE)
        assert len(found) == 1


def test_waiting_for_a_daemon_that_is_gone_ends_with_the_last_error(
    daemon: Daemon, peer: Callable[..., str]
) -> None:
    lukasa = daemon.client()
    task = lukasa.dream()
    daemon.kill()
    with pytest.raises(DaemonUnreachableError, match="lukasa serve"):
        lukasa.tasks.wait(task, timeout=0.2)
    with pytest.raises(DeadlineError):
        daemon.client(url=peer(closes=False)).tasks.wait(task, timeout=0.2)


def test_another_workspace_has_tasks_of_its_own(daemon: Daemon) -> None:
    here = daemon.client(workspace=daemon.workspace)
    task = here.remember("I like tea.")
    here.tasks.wait(task)
    assert here.tasks.get(task)["status"] == "completed"
    nowhere = here.with_options(workspace="nowhere")
    for call in (nowhere.dream, nowhere.tasks.list, nowhere.stats):
        with pytest.raises(NotFoundError) as unknown:
            call()
        assert unknown.value.code == "workspace_not_found"
    assert here.stats()["workspaceId"] == daemon.workspace

from __future__ import annotations

import pytest

from lukasa import ApiError, Client, NotFoundError, UndoBlockedError


def test_history_is_read_and_undone(lukasa: Client) -> None:
    path = "/memories/global/a.md"
    first = lukasa.memories.create(path, "one\n")
    second = lukasa.memories.save(path, "two\n", first.get("revision") or "")
    earlier, later = first.get("change"), second.get("change")
    assert earlier is not None
    assert later is not None
    assert [change["id"] for change in lukasa.changes.all(path=path)] == [later, earlier]
    page = lukasa.changes.list(actor="person", max=1)
    assert ([change["id"] for change in page["changes"]], "nextCursor" in page) == ([later], True)
    assert "+two" in lukasa.changes.get(later)["diffs"][0]["diff"]

    with pytest.raises(UndoBlockedError) as blocked:
        lukasa.changes.undo(earlier)
    assert blocked.value.code == "conflict"
    assert [one["path"] for one in blocked.value.blocked] == [path]
    assert lukasa.changes.undo(later, dry_run=True).get("change") is None
    assert lukasa.memories.read(path)["text"] == "two\n"
    assert lukasa.changes.undo(later)["undone"] == [later]
    assert lukasa.memories.read(path)["text"] == "one\n"
    with pytest.raises(NotFoundError):
        lukasa.changes.get(999)


def test_runs_are_the_changes_of_each_task(lukasa: Client) -> None:
    texts = ["I like tea.", "I drive a bus.", "I live in Brenn."]
    tasks: list[str] = []
    for text in texts:
        task = lukasa.remember(text)
        lukasa.tasks.wait(task)
        tasks.insert(0, task.task_id)
    lukasa.memories.create("/memories/global/by-a-person.md", "x\n")
    found, cursor = [], None
    while True:
        page = lukasa.changes.runs(cursor=cursor, max=1)
        found += [(run["kind"], run["id"], len(run["changes"])) for run in page["runs"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert found == [("task", task, 1) for task in tasks]
    preview = lukasa.changes.undo_several(task=tasks[0], dry_run=True)
    assert preview.get("change") is None
    assert len(lukasa.changes.undo_several(task=tasks[0])["undone"]) == 1
    assert lukasa.recall(texts[2])["memories"] == []
    assert lukasa.changes.model_runs(max=5)["runs"] == []


def test_one_proposal_is_accepted_and_another_one_is_rejected(lukasa: Client) -> None:
    path = "/memories/global/editor.md"
    lukasa.memories.create(path, "- Uses VS Code with vim keys\n")
    tasks = []
    for editor in ("Zed", "Helix"):
        task = lukasa.remember(f"I switched from VS Code to {editor}", scope="user")
        assert lukasa.tasks.wait(task).get("proposals") == 1
        tasks.append(task.task_id)
    kept = lukasa.memories.read(path)["text"]
    page = lukasa.pending.list(max=1)
    assert (len(page["proposals"]), page["waiting"]) == (1, 2)
    proposals = list(lukasa.pending.all())
    assert [proposal.get("task") for proposal in proposals] == tasks
    first, second = (proposal["id"] for proposal in proposals)
    shown = lukasa.pending.get(first)
    assert (shown["kind"], shown["origin"]) == ("update", "remember")
    assert "-- Uses VS Code" in shown["diffs"][0]["diff"]

    rejected = lukasa.pending.reject(second)
    assert [(one["id"], one["done"]) for one in rejected] == [(second, True)]
    [accepted] = lukasa.pending.accept(first)
    change = accepted.get("change")
    assert change is not None
    assert "vim keys" not in lukasa.memories.read(path)["text"]
    with pytest.raises(ApiError) as decided:
        lukasa.pending.get(first)
    assert decided.value.code == "conflict"
    lukasa.changes.undo(change)
    assert lukasa.memories.read(path)["text"] == kept
    [unknown] = lukasa.pending.accept(999)
    assert (unknown["done"], unknown.get("code")) == (False, "not_found")
    assert lukasa.pending.list()["waiting"] == 0

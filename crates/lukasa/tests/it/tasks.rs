//! Tasks: waiting, polling, previewing, undoing.

use lukasa::{ErrorKind, Scope, TaskId, TaskStatus};

use crate::{TestHome, paths, person};

#[tokio::test]
async fn remember_recall_and_forget_work_without_a_model_or_network() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    let report = memories.remember("I prefer tabs over spaces").await.unwrap();
    assert_eq!(report.memories.len(), 1, "{report:?}");
    let hits = memories.recall("tabs or spaces?").await.unwrap().hits;
    assert_eq!(hits[0].path, report.memories[0]);

    let again = memories.remember("I prefer tabs over spaces").await.unwrap();
    assert!(again.memories.is_empty(), "{again:?}");

    let gone = memories.forget("my preference for tabs").await.unwrap();
    assert_eq!(gone.memories, report.memories);
    assert!(memories.recall("tabs or spaces?").await.unwrap().hits.is_empty());
    memories.dream().await.unwrap();
    lukasa.close().await;
}

#[tokio::test]
async fn an_unavailable_scope_fails_the_task() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let error = person(&lukasa).remember_in(Scope::Project, "We use pnpm").await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "remember_scope_mismatch"));
    lukasa.close().await;
}

#[tokio::test]
async fn a_task_is_found_by_its_id_and_undone_as_a_whole() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    let task = memories.remember("I work at night").start().await.unwrap();
    let id = task.id().clone();
    drop(task);
    let task = memories.task(&id).await.unwrap().unwrap();
    let report = task.wait().await.unwrap();
    assert!(matches!(task.status().await.unwrap(), TaskStatus::Completed(same) if same == report));
    // The task has ended, so cancelling it changes nothing.
    assert!(matches!(task.cancel().await.unwrap(), TaskStatus::Completed(_)));
    let listed: Vec<TaskId> =
        memories.tasks().await.unwrap().iter().map(|task| task.id().clone()).collect();
    assert_eq!(listed, std::slice::from_ref(&id));
    let history = memories.history(9).await.unwrap();
    assert_eq!(history[0].task, Some(id.clone()));

    let undo = memories.undo_task(&id).await.unwrap();
    assert_eq!(undo.undone, [history[0].id]);
    assert!(paths(&memories).await.is_empty());
    let unknown: TaskId = "dream-00000000-0000-4000-8000-000000000000".parse().unwrap();
    assert!(memories.task(&unknown).await.unwrap().is_none());
    lukasa.close().await;
}

#[tokio::test]
async fn a_preview_changes_nothing() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    let report = memories.remember("I work at night").preview().await.unwrap();
    assert_eq!(report.memories.len(), 1);
    assert!(paths(&memories).await.is_empty());
    assert!(memories.tasks().await.unwrap().is_empty());
    lukasa.close().await;
}

#[tokio::test]
async fn a_dropped_request_queues_no_task() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    drop(memories.remember("I work at night"));
    assert!(memories.tasks().await.unwrap().is_empty());
    lukasa.close().await;
}

#[tokio::test]
async fn an_uncertain_change_becomes_a_proposal_for_a_person() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    let twice = "- The office is in Berlin, on the second floor.\n\
                 - The office is in Berlin, on the second floor, near the park.\n";
    memories.create("global/office.md", twice).await.unwrap();
    memories.dream().await.unwrap();
    let proposals = memories.proposals().await.unwrap();
    let [first, ..] = &proposals[..] else { panic!("nothing is proposed") };
    assert!(first.stale.is_none() && !first.diffs.is_empty(), "{first:?}");
    assert_eq!(memories.read("global/office.md").await.unwrap().text, twice);

    let change = memories.accept_proposal(first.id).await.unwrap();
    assert_ne!(memories.read("global/office.md").await.unwrap().text, twice);
    let again = memories.accept_proposal(first.id).await.unwrap_err();
    assert_eq!((again.kind(), again.code()), (ErrorKind::Conflict, "conflict"));
    memories.undo(change).await.unwrap();
    assert_eq!(memories.read("global/office.md").await.unwrap().text, twice);
    lukasa.close().await;
}

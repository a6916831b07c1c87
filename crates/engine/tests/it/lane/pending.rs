//! Tests of the queue of proposals: filled by tasks, decided by a person, each once.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use lukasa_engine::{
    BindingRequest, CallContext, Caller, DecisionError, DryRun, Memories, PendingProposal,
    ProposalDecision, ProposalQueue, Status, TaskState, UndoTarget, Workspace,
};
use memory::access::AgentClass;
use memory::change::{ChangeId, ChangeKind, Trust};
use memory::document::Revision;
use memory::error_code::MemoryErrorCode;
use memory::proposal::{
    EntryChange, EntryReference, Proposal, ProposalId, ProposalKind, ProposalStatus,
};
use state::{Announcement, NewProposal, SqliteState};
use store::Binding;
use testkit::{Faults, FaultyState, FaultyTasks};

use super::host::{LaneHost, LaneProcess, anonymous_requester, at, remember, removal};

/// Number of state calls: more than a task with a change and proposals makes.
const CALLS: u64 = 24;

fn pending(process: &LaneProcess) -> ProposalQueue {
    process.pending()
}

fn memories(process: &LaneProcess, caller: Caller) -> Memories {
    let binding = Binding::resolve(&process.workspace.binding, process.folders());
    process.store.memories(binding, caller)
}

fn person(process: &LaneProcess) -> Memories {
    memories(process, Caller::person("test"))
}

async fn list(process: &LaneProcess) -> Vec<PendingProposal> {
    let page = pending(process).list(&person(process), None, 100).await.unwrap();
    let counted = pending(process).count(&person(process)).await.unwrap();
    assert_eq!(counted, u64::try_from(page.proposals.len()).unwrap());
    page.proposals
}

async fn put(process: &LaneProcess, path: &str, text: &str) {
    let memories = person(process);
    let mut draft = memories.draft(ChangeKind::Save, CallContext::default());
    draft.set_text(&at(path), text).await.unwrap();
    draft.commit().await.unwrap();
}

/// Has a task make a proposal, and returns its number.
async fn store_proposal(
    (host, process): (&LaneHost, &LaneProcess),
    proposal: Proposal,
) -> ProposalId {
    host.runner.proposals.lock().unwrap().push(proposal);
    let task = process.submit_and_wait("").await;
    let TaskState::Completed(result) = &task.state else { panic!("{task:?}") };
    assert_eq!(result.proposals.count(), 1, "{task:?}");
    list(process).await.last().unwrap().id
}

async fn accept(process: &LaneProcess, id: ProposalId) -> Result<Option<ChangeId>, DecisionError> {
    only_outcome(pending(process).accept(&person(process), &[id], &CallContext::default()).await)
}

async fn reject(process: &LaneProcess, id: ProposalId) -> Result<Option<ChangeId>, DecisionError> {
    only_outcome(pending(process).reject(&person(process), &[id]).await)
}

fn only_outcome(mut decisions: Vec<ProposalDecision>) -> Result<Option<ChangeId>, DecisionError> {
    assert_eq!(decisions.len(), 1);
    decisions.remove(0).outcome
}

fn proposal(changes: &[(&str, Option<&str>, Option<&str>)]) -> Proposal {
    let change = |(path, old, new): &(&str, Option<&str>, Option<&str>)| EntryChange {
        path: at(path),
        old: old.map(str::to_owned),
        new: new.map(str::to_owned),
    };
    Proposal {
        kind: ProposalKind::Update,
        reason: "it is newer".to_owned(),
        score: 70,
        changes: changes.iter().map(change).collect(),
        relies_on: Vec::new(),
        review: None,
    }
}

#[tokio::test]
async fn a_proposal_waits_with_a_preview_of_its_changes() {
    let host = LaneHost::new();
    let process = host.process();
    put(&process, "project/a.md", "- x\n- y\n").await;
    let mut announced = process.store.subscribe_to_announcements();
    let task = process.submit_and_wait("propose x project/a.md propose y project/a.md").await;
    let TaskState::Completed(result) = &task.state else { panic!("{task:?}") };
    assert_eq!(result.proposals.count(), 2);
    let waiting = list(&process).await;
    let [first, second] = &waiting[..] else { panic!("{waiting:?}") };
    assert_eq!(first.proposal, removal(at("project/a.md"), "x".to_owned()));
    assert_eq!(
        (first.origin.as_str(), first.task.as_deref()),
        ("remember", Some(task.id.as_str()))
    );
    let Ok(Announcement::Proposals(notice)) = announced.try_recv() else {
        panic!("the proposals are announced")
    };
    assert_eq!((notice.ids, notice.status), (vec![first.id, second.id], ProposalStatus::Waiting));
    assert_eq!(first.stale, None);
    insta::assert_snapshot!(first.diffs[0].unified, @r"
    --- /memories/project/a.md
    +++ /memories/project/a.md
    @@ -1,2 +1 @@
    -- x
     - y
    ");
    assert_eq!(pending(&process).get(&person(&process), second.id).await.unwrap(), *second);
    let page = pending(&process).list(&person(&process), None, 1).await.unwrap();
    assert_eq!((page.proposals.as_slice(), page.next), (&waiting[..1], Some(first.id)));
    let rest = pending(&process).list(&person(&process), page.next, 9).await.unwrap();
    assert_eq!((rest.proposals.as_slice(), rest.next), (&waiting[1..], None));
    // The text of the request is deleted, and the proposals are only in the queue.
    let row = process.tasks.task(task.id.as_str()).await.unwrap().unwrap();
    assert!(!row.outcome.unwrap().contains("ended"), "the outcome has their number");
    // The same proposals are not made twice.
    let again = process.submit_and_wait("propose x project/a.md").await;
    let TaskState::Completed(result) = &again.state else { panic!("{again:?}") };
    assert_eq!(result.proposals.count(), 0);
    assert_eq!(list(&process).await.len(), 2);
}

#[tokio::test]
async fn an_accepted_proposal_is_one_change_that_can_be_undone() {
    let host = LaneHost::new();
    let process = host.process();
    let crlf = "---\r\nname: a\r\n---\r\n\r\n- Uses Emacs\r\n  at work\r\n- Likes tea\r\n";
    put(&process, "project/a.md", crlf).await;
    put(&process, "global/b.md", "- Left alone\n").await;
    let id = store_proposal(
        (&host, &process),
        proposal(&[
            ("project/a.md", Some("Likes tea"), None),
            ("global/b.md", None, Some("Likes tea")),
        ]),
    )
    .await;
    let change = accept(&process, id).await.unwrap().unwrap();
    assert_eq!(list(&process).await, []);
    let expected = crlf.replace("- Likes tea\r\n", "");
    assert_eq!(process.text("project/a.md").await, Some(expected));
    assert_eq!(process.text("global/b.md").await.unwrap(), "- Left alone\n- Likes tea\n");
    let recorded = person(&process).change(change).await.unwrap();
    assert_eq!((recorded.kind, recorded.files.len()), (ChangeKind::Proposal, 2));
    assert_eq!(recorded.provenance.actor, memory::change::Actor::Person);
    person(&process)
        .undo(&UndoTarget::Change(change), DryRun::No, &CallContext::default())
        .await
        .unwrap();
    assert_eq!(process.text("project/a.md").await.as_deref(), Some(crlf));
    assert_eq!(process.text("global/b.md").await.as_deref(), Some("- Left alone\n"));
    let again = accept(&process, id).await.unwrap_err();
    assert_eq!(again.to_string(), format!("the proposal {id} was accepted already"));
}

/// Accepts a proposal about a memory with this head and body, undoes it, and returns the text that
/// it made.
async fn text_after(head: &str, body: &str, changes: &[(Option<&str>, Option<&str>)]) -> String {
    let host = LaneHost::new();
    let process = host.process();
    let text = format!("---\n{head}\n---\n\n{body}");
    put(&process, "global/user/a.md", &text).await;
    let changes: Vec<_> =
        changes.iter().map(|(old, new)| ("global/user/a.md", *old, *new)).collect();
    let id = store_proposal((&host, &process), proposal(&changes)).await;
    let shown = pending(&process).get(&person(&process), id).await.unwrap();
    let change = accept(&process, id).await.unwrap().unwrap();
    let after = process.text("global/user/a.md").await;
    assert_eq!(shown.diffs[0].after, after, "the preview shows the same");
    assert_eq!(person(&process).change(change).await.unwrap().files.len(), 1);
    person(&process)
        .undo(&UndoTarget::Change(change), DryRun::No, &CallContext::default())
        .await
        .unwrap();
    assert_eq!(process.text("global/user/a.md").await, Some(text), "one undo takes back both");
    after.unwrap()
}

#[tokio::test]
async fn a_generated_description_follows_an_accepted_proposal() {
    type Changes = &'static [(Option<&'static str>, Option<&'static str>)];
    let rows: &[(&str, &str, Changes, &str, &str)] = &[
        (
            "description: I do not like tea\nname: do not like tea",
            "- I do not like tea.\n- I like tea.\n",
            &[(Some("I do not like tea."), None)],
            "description: I like tea\nname: like tea",
            "- I like tea.\n",
        ),
        (
            "type: project\ndescription: The relay listens on port 5433",
            "- The relay listens on port 5433.\n- The relay is old.\n",
            &[(Some("The relay listens on port 5433."), Some("The relay listens on port 7000."))],
            "type: project\ndescription: The relay listens on port 7000",
            "- The relay listens on port 7000.\n- The relay is old.\n",
        ),
        // Two entries become one.
        (
            "description: Oboe lessons are on Monday; Oboe reeds are from Lyon\nowner: Ada",
            "- Oboe lessons are on Monday\n- Oboe reeds are from Lyon\n",
            &[
                (Some("Oboe lessons are on Monday"), None),
                (Some("Oboe reeds are from Lyon"), Some("Lessons on Monday, reeds from Lyon")),
            ],
            "description: Lessons on Monday, reeds from Lyon\nowner: Ada",
            "- Lessons on Monday, reeds from Lyon\n",
        ),
        // An entry that the description does not have, and one more entry.
        (
            "description: The relay is old",
            "- The relay is old\n- The relay is loud\n",
            &[(Some("The relay is loud"), Some("The relay is silent")), (None, Some("It hums"))],
            "description: It hums",
            "- The relay is old\n- The relay is silent\n- It hums\n",
        ),
        // Words of a person, about an entry that they do not repeat.
        (
            "description: Drinks\nname: tea",
            "- I do not like tea.\n- I like tea.\n",
            &[(Some("I do not like tea."), None)],
            "description: Drinks\nname: tea",
            "- I like tea.\n",
        ),
        // A difference in signs alone.
        (
            "description: Den Leser schreiben wir in C",
            "- Den Leser schreiben wir in C\n",
            &[(Some("Den Leser schreiben wir in C"), Some("Den Leser schreiben wir in C++"))],
            "description: Den Leser schreiben wir in C++",
            "- Den Leser schreiben wir in C++\n",
        ),
    ];
    for (head, body, changes, expected_head, expected_body) in rows {
        let expected = format!("---\n{expected_head}\n---\n\n{expected_body}");
        assert_eq!(text_after(head, body, changes).await, expected, "{head}");
    }
}

#[tokio::test]
async fn a_memory_without_entries_is_deleted() {
    let host = LaneHost::new();
    let process = host.process();
    put(&process, "project/a.md", "---\nname: a\n---\n\n- x\n").await;
    let id = store_proposal((&host, &process), removal(at("project/a.md"), "x".to_owned())).await;
    accept(&process, id).await.unwrap();
    assert_eq!(process.text("project/a.md").await, None);
}

#[tokio::test]
async fn a_rejected_proposal_is_not_made_again() {
    let host = LaneHost::new();
    let process = host.process();
    put(&process, "project/a.md", "- x\n").await;
    let id = store_proposal((&host, &process), removal(at("project/a.md"), "x".to_owned())).await;
    assert_eq!(reject(&process, id).await.unwrap(), None);
    assert_eq!(process.text("project/a.md").await.as_deref(), Some("- x\n"));
    let again = process.submit_and_wait("propose x project/a.md").await;
    let TaskState::Completed(result) = &again.state else { panic!("{again:?}") };
    assert_eq!((result.proposals.count(), list(&process).await.len()), (0, 0));
    for decision in [accept(&process, id).await, reject(&process, id).await] {
        assert!(matches!(decision, Err(DecisionError::Decided { .. })), "{decision:?}");
    }
}

#[tokio::test]
async fn a_stale_proposal_says_why_and_changes_nothing() {
    let host = LaneHost::new();
    let process = host.process();
    put(&process, "project/a.md", "- x\n- y\n").await;
    put(&process, "global/b.md", "- same as x\n").await;
    let mut relying = removal(at("project/a.md"), "x".to_owned());
    relying.relies_on =
        vec![EntryReference { path: at("global/b.md"), text: "same as x".to_owned() }];
    let relying = store_proposal((&host, &process), relying).await;
    let both = proposal(&[("global/b.md", None, Some("z")), ("project/a.md", Some("y"), None)]);
    let both = store_proposal((&host, &process), both).await;
    put(&process, "global/b.md", "- another\n").await;
    put(&process, "project/a.md", "- x\n- y, since\n").await;
    for (id, why) in [
        (
            relying,
            "/memories/global/b.md: the entry was changed or removed since, and the proposal relies on it",
        ),
        (both, "/memories/project/a.md: the entry was changed or removed since"),
    ] {
        let refused = accept(&process, id).await.unwrap_err();
        assert_eq!(refused.code(), MemoryErrorCode::Conflict);
        assert_eq!(refused.to_string(), format!("the proposal {id} is stale: {why}"));
        let listed = pending(&process).get(&person(&process), id).await.unwrap();
        assert_eq!((listed.stale.as_deref(), listed.diffs.len()), (Some(why), 0));
    }
    assert_eq!(process.text("global/b.md").await.as_deref(), Some("- another\n"), "none by half");
    assert_eq!(list(&process).await.len(), 2, "they stay");
    reject(&process, both).await.unwrap();
    put(&process, "global/b.md", "- same as x\n").await;
    assert!(accept(&process, relying).await.is_ok(), "what it relies on is back");
}

#[tokio::test]
async fn several_proposals_are_decided_independently() {
    let host = LaneHost::new();
    let process = host.process();
    put(&process, "project/a.md", "- x\n- y\n- z\n").await;
    let mut ids = Vec::new();
    for entry in ["x", "y", "z"] {
        ids.push(
            store_proposal((&host, &process), removal(at("project/a.md"), entry.to_owned())).await,
        );
    }
    put(&process, "project/a.md", "- x\n- z\n").await;
    let ids = [ids[0], ids[1], ProposalId(77), ids[2], ids[0]];
    let decisions =
        pending(&process).accept(&person(&process), &ids, &CallContext::default()).await;
    let outcomes: Vec<_> = decisions
        .iter()
        .map(|one| (one.id, one.outcome.as_ref().map(Option::is_some).map_err(DecisionError::code)))
        .collect();
    let expected = [
        Ok(true),
        Err(MemoryErrorCode::Conflict),
        Err(MemoryErrorCode::NotFound),
        Ok(true),
        Err(MemoryErrorCode::Conflict),
    ];
    assert_eq!(outcomes, ids.into_iter().zip(expected).collect::<Vec<_>>());
    assert_eq!(process.text("project/a.md").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_decisions_one_wins() {
    for round in 0..8 {
        let host = LaneHost::new();
        let (one, two) = (host.process(), host.process());
        put(&one, "project/a.md", "- x\n").await;
        let id =
            store_proposal((&host, &one), proposal(&[("project/a.md", None, Some("y"))])).await;
        let (first, second) = if round % 2 == 0 {
            tokio::join!(accept(&one, id), accept(&two, id))
        } else {
            tokio::join!(accept(&one, id), reject(&two, id))
        };
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        let accepted = first.is_ok() || round % 2 == 0;
        let refused = first.err().or(second.err()).unwrap();
        assert!(matches!(refused, DecisionError::Decided { .. }), "{refused:?}");
        let text = if accepted { "- x\n- y\n" } else { "- x\n" };
        assert_eq!(two.text("project/a.md").await.as_deref(), Some(text));
    }
}

fn git(folder: &Path, arguments: &[&str]) {
    let settings = ["-c", "user.name=a", "-c", "user.email=a@b.example"];
    let ran = Command::new("git").args(settings).args(arguments).current_dir(folder).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

fn workspace(folder: &Path) -> Workspace {
    let project = Some(folder.to_owned().into());
    Workspace::new(folder.to_owned(), BindingRequest { project, ..BindingRequest::default() })
}

#[tokio::test]
async fn a_proposal_is_not_visible_in_other_projects_and_worktrees() {
    let host = LaneHost::new();
    let mut process = host.process();
    let home = tempfile::tempdir().unwrap();
    let top = home.path().join("top");
    std::fs::create_dir_all(&top).unwrap();
    git(&top, &["init", "-q"]);
    git(&top, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&top, &["worktree", "add", "-q", "../side"]);
    process.workspace = workspace(&top);
    put(&process, "project/a.md", "- x\n").await;
    put(&process, "global/b.md", "- x\n").await;
    let both = proposal(&[("project/a.md", Some("x"), None), ("global/b.md", Some("x"), None)]);
    let id = store_proposal((&host, &process), both).await;
    for elsewhere in [workspace(&home.path().join("side")), host.workspace("mill")] {
        process.workspace = elsewhere;
        put(&process, "project/a.md", "- x\n").await;
        assert_eq!(list(&process).await, []);
        for refused in [accept(&process, id).await, reject(&process, id).await] {
            assert!(matches!(refused, Err(DecisionError::NotFound(_))), "{refused:?}");
        }
        let refused = pending(&process).get(&person(&process), id).await.unwrap_err();
        assert_eq!(refused.code(), MemoryErrorCode::NotFound);
        // A proposal about global memories is visible in all workspaces.
        let shared =
            store_proposal((&host, &process), removal(at("global/b.md"), "x".to_owned())).await;
        process.workspace = workspace(&top);
        assert_eq!(list(&process).await.last().unwrap().id, shared);
        take_out(&process, shared).await;
    }
    assert!(accept(&process, id).await.is_ok());
}

/// Removes a proposal from the queue so that it can be made again.
async fn take_out(process: &LaneProcess, id: ProposalId) {
    let change = accept(process, id).await.unwrap().unwrap();
    person(process)
        .undo(&UndoTarget::Change(change), DryRun::No, &CallContext::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn only_a_person_who_may_write_decides() {
    let host = LaneHost::new();
    let mut process = host.process();
    put(&process, "project/a.md", "- x\n").await;
    let id = store_proposal((&host, &process), removal(at("project/a.md"), "x".to_owned())).await;
    let agent = memories(&process, Caller::agent(AgentClass::Exec, "test"));
    process.workspace.binding.read_only = true;
    assert_eq!(list(&process).await.len(), 1, "it is shown");
    for memories in [person(&process), agent] {
        let pending = pending(&process);
        let decisions = pending.accept(&memories, &[id], &CallContext::default()).await;
        assert_eq!(only_outcome(decisions).unwrap_err().code(), MemoryErrorCode::ReadOnly);
        assert_eq!(
            only_outcome(pending.reject(&memories, &[id]).await).unwrap_err().code(),
            MemoryErrorCode::ReadOnly
        );
    }
    process.workspace.binding.read_only = false;
    assert!(accept(&process, id).await.is_ok());
}

#[tokio::test]
async fn moving_text_from_outside_does_not_raise_its_trust() {
    let host = LaneHost::new();
    let process = host.process();
    put(&process, "project/b.md", "- y\n").await;
    write_outside(&process, "project/a.md", "- x\n").await;
    let moved = proposal(&[("project/a.md", Some("x"), None), ("project/b.md", None, Some("x"))]);
    let id = store_proposal((&host, &process), moved).await;
    let change = accept(&process, id).await.unwrap().unwrap();
    let recorded = person(&process).change(change).await.unwrap();
    assert_eq!(recorded.provenance.trust, Trust::Outside);
    assert!(recorded.files.iter().all(|file| file.trust == Trust::Outside), "{recorded:?}");
}

/// Writes a memory like an editor.
async fn write_outside(process: &LaneProcess, path: &str, text: &str) {
    let path = at(path);
    let mounts = person(process).mounts();
    let mount = mounts.iter().find(|state| Some(state.mount) == path.mount()).unwrap();
    let file = mount.folder.clone().unwrap().join(path.relative().unwrap().as_str());
    std::fs::write(file, text).unwrap();
    process.notice().await;
}

#[tokio::test]
async fn new_text_of_an_agent_keeps_its_trust() {
    let host = LaneHost::new();
    let process = host.process();
    put(&process, "project/a.md", "- x\n").await;
    let id = store_proposal((&host, &process), proposal(&[("project/a.md", Some("x"), Some("y"))]))
        .await;
    let change = accept(&process, id).await.unwrap().unwrap();
    let recorded = person(&process).change(change).await.unwrap();
    assert_eq!(recorded.files[0].trust, Trust::Agent);
}

#[tokio::test]
async fn a_damaged_proposal_is_skipped() {
    let host = LaneHost::new();
    let process = host.process();
    put(&process, "project/a.md", "- x\n").await;
    let id = store_proposal((&host, &process), removal(at("project/a.md"), "x".to_owned())).await;
    let sound = process.tasks.proposal(id).await.unwrap().unwrap().new;
    let damaged: Vec<_> =
        ["", "{", "[]", "{\"kind\":\"expiry\",\"reason\":\"\",\"score\":200,\"changes\":[]}"]
            .iter()
            .enumerate()
            .map(|(number, text)| NewProposal {
                proposal: (*text).to_owned(),
                digest: Revision::digest(format!("{number}").as_bytes()),
                ..sound.clone()
            })
            .collect();
    let ids = process.tasks.add_proposals(&damaged).await.unwrap().ids;
    assert_eq!(ids.len(), 4);
    let page = pending(&process).list(&person(&process), None, 9).await.unwrap();
    assert_eq!(page.proposals.iter().map(|one| one.id).collect::<Vec<_>>(), [id]);
    let refused = accept(&process, ids[0]).await.unwrap_err();
    assert_eq!(refused.code(), MemoryErrorCode::NotFound);
}

/// Submits a task with a change and a proposal, in a process that crashes on the way.
async fn die(host: &LaneHost, faults: Faults) -> bool {
    let sqlite = Arc::new(SqliteState::new(host.folders.state.join("lukasa.db")));
    let state = Arc::new(FaultyState::new(Arc::clone(&sqlite) as _));
    let tasks = Arc::new(FaultyTasks::sharing(sqlite, &state));
    let process = host.process_on(Arc::clone(&state) as _, tasks);
    state.set(faults);
    let (lanes, workspace) = (process.lanes(), &process.workspace);
    let request = remember("add project/a.md x add project/a.md y propose x project/a.md");
    let submitted = lanes.submit(workspace, request, anonymous_requester()).await;
    if let Ok(task) = &submitted {
        // Returns after the crash or the end of the task.
        drop(lanes.wait(workspace, &task.id).await);
    }
    lanes.drain(std::time::Duration::ZERO).await;
    process.store.close().await;
    submitted.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_is_stored_once_after_a_crash_at_any_step() {
    let mut worlds = tokio::task::JoinSet::new();
    for call in 1..=CALLS {
        for faults in [Faults::CrashAfter(call), Faults::CrashBeforeAnswer(call)] {
            worlds.spawn(async move {
                let host = LaneHost::new();
                let acknowledged = die(&host, faults).await;
                let process = host.process();
                process.lanes().resume(&[host.workspace("shop")]).await.unwrap();
                let filter = lukasa_engine::TaskFilter::default();
                let viewer = lukasa_engine::Viewer::Person;
                let tasks = process.lanes().list(&process.workspace, filter, viewer).await.unwrap();
                assert!(tasks.len() == 1 || !acknowledged, "{faults:?}");
                for task in &tasks {
                    let ended = process.wait_for_end(task).await;
                    assert_eq!(ended.status(), Status::Completed, "{faults:?}");
                    let waiting = list(&process).await;
                    assert_eq!(waiting.len(), 1, "{faults:?}: {waiting:?}");
                    assert_eq!(process.text("project/a.md").await.unwrap(), "- x\n- y\n");
                }
            });
        }
    }
    worlds.join_all().await;
}

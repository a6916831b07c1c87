//! Tests of the Rust client against a daemon in its own process.

mod streams;
mod tcp_proxy;

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use memory::limits::MEMORY_BYTES_MAX;
use protocol::changes::UndoSeveral;
use protocol::client::{
    AgentClass, ChangesQuery, Client, ClientError, DryRun, Endpoint, MemoriesQuery, Refusal,
    SearchQuery, TasksQuery,
};
use protocol::context_files::{ContextScope, WriteMemory, WriteMode};
use protocol::error::ErrorCode;
use protocol::memories::{BatchStep, Sort};
use protocol::task::{
    ContextMode, ForgetRequest, RememberRequest, TargetScope, Task, TaskResult, TaskStatus,
    WorkKind,
};
use serde_json::json;

use self::tcp_proxy::TcpProxy;
use super::{Daemon, PATIENCE, TOKEN, socket};
use crate::processes::{Locks, hold_locks};
use crate::sandbox::Sandbox;

#[path = "../../../../protocol/examples/client.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod example;

fn client(daemon: &Daemon) -> Client {
    client_at(daemon.log_lines["url"].as_str().unwrap())
}

fn client_at(url: &str) -> Client {
    Client::new(url.parse().unwrap(), TOKEN).unwrap().with_deadline(PATIENCE)
}

fn text(content: &str) -> RememberRequest {
    RememberRequest { content: content.to_owned(), context_mode: None, scope: None }
}

async fn remembered(client: &Client, content: &str) -> Task {
    let task = client.remember(&text(content)).await.unwrap();
    client.wait_for(&task.task_id, PATIENCE).await.unwrap()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Refusal {
    match result {
        Err(ClientError::Refused(refusal)) => *refusal,
        other => panic!("{other:?}"),
    }
}

/// Returns the revision that a conflict reports.
fn conflict<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Option<String> {
    match result {
        Err(ClientError::Conflict(conflict)) => conflict.revision,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_example_of_the_documentation_works() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let door = || daemon.log_lines["url"].as_str().unwrap().parse::<Endpoint>().unwrap();
    let told = example::remember(door(), TOKEN).await.unwrap().unwrap();
    assert!(told.ends_with("- And coffee after lunch.\n"), "{told}");
    let listed = client(&daemon).memories(&MemoriesQuery::default()).await.unwrap();
    assert_eq!(client(&daemon).read(&listed.memories[0].path).await.unwrap().text, told);
    assert_eq!(example::remember(door(), TOKEN).await.unwrap(), None, "it is known");
}

#[tokio::test]
async fn tasks_are_started_awaited_and_distinguished() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let client = client(&daemon);
    let request = RememberRequest {
        content: "This project builds with make.".to_owned(),
        context_mode: Some(ContextMode::Clean),
        scope: Some(TargetScope::Project),
    };
    let asked = client.remember(&request).await.unwrap();
    assert_eq!(asked.scope, Some(TargetScope::Project));
    let done = client.wait_for(&asked.task_id, PATIENCE).await.unwrap();
    let Some(TaskResult::Remember(result)) = &done.result else { panic!("{done:?}") };
    assert_eq!(result.touched_scopes, [TargetScope::Project]);
    assert_eq!(client.task(&asked.task_id).await.unwrap(), done);

    let dream = client.dream().await.unwrap();
    let done = client.wait_for(&dream.task_id, PATIENCE).await.unwrap();
    assert!(matches!(done.result, Some(TaskResult::Dream(_))), "{done:?}");

    let query = ForgetRequest {
        query: "forget that this project builds with make".to_owned(),
        scope: None,
        file_path: None,
    };
    let forget = client.forget(&query).await.unwrap();
    let done = client.wait_for(&forget.task_id, PATIENCE).await.unwrap();
    let Some(TaskResult::Forget(result)) = &done.result else { panic!("{done:?}") };
    assert_eq!(result.removed_entries.len(), 1);

    let query = TasksQuery { kind: Some(WorkKind::Forget), ..TasksQuery::default() };
    let listed = client.tasks(&query).await.unwrap();
    assert_eq!(listed.tasks.len(), 1);
    assert_eq!(listed.tasks[0].task, done);

    let secret = "The key is sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl";
    let screened = client.remember(&text(secret)).await.unwrap();
    match client.wait_for(&screened.task_id, PATIENCE).await {
        Err(error @ ClientError::TaskFailed(_)) => {
            assert!(error.to_string().starts_with("the task failed: "), "{error}");
            let ClientError::TaskFailed(task) = error else { panic!() };
            assert_eq!(task.error.unwrap().code, "screened");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_waiting_task_can_be_left_or_cancelled() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let client = client(&daemon);
    remembered(&client, "I like tea.").await;
    let held = hold_locks(&place, Locks::Lanes);
    let (left, taken) = (client.dream().await.unwrap(), client.dream().await.unwrap());
    match client.wait_for(&left.task_id, Duration::from_millis(500)).await {
        Err(ClientError::TaskUnfinished { task, .. }) => {
            assert_eq!((task.status, task.task_id), (TaskStatus::Queued, left.task_id.clone()));
        }
        other => panic!("{other:?}"),
    }
    let back = client.cancel(&taken.task_id).await.unwrap();
    assert_eq!(back.status, TaskStatus::Failed);
    match client.wait_for(&taken.task_id, PATIENCE).await {
        Err(ClientError::TaskFailed(task)) => assert_eq!(*task, back),
        other => panic!("{other:?}"),
    }
    // A client that stops waiting does not stop the task.
    let waiting = client.wait_for(&left.task_id, PATIENCE);
    assert!(tokio::time::timeout(Duration::ZERO, waiting).await.is_err());
    drop(held);
    let done = client.wait_for(&left.task_id, PATIENCE).await.unwrap();
    assert_eq!(done.status, TaskStatus::Completed);
    // An ended task keeps its status.
    assert_eq!(client.cancel(&left.task_id).await.unwrap(), done);
}

#[tokio::test]
async fn each_client_sees_its_own_tasks() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let anybody = client(&daemon);
    let folder = anybody.capabilities().await.unwrap().workspace_cwd;
    let session = anybody.begin_session(Some(&folder)).await.unwrap();
    let other = anybody.begin_session(None).await.unwrap();
    let ours = anybody.clone().with_client_id(&session.client_id).unwrap();
    let theirs = anybody.clone().with_client_id(&other.client_id).unwrap();
    let task = remembered(&ours, "I like tea.").await;
    for stranger in [&theirs, &anybody] {
        let refused = refusal(stranger.task(&task.task_id).await);
        assert_eq!((refused.status, refused.code), (404, ErrorCode::RememberTaskNotFound));
        assert!(stranger.tasks(&TasksQuery::default()).await.unwrap().tasks.is_empty());
    }
    ours.end_session(&session.session_id).await.unwrap();
    let refused = refusal(ours.dream().await);
    assert_eq!((refused.status, refused.code), (400, ErrorCode::InvalidClientId));
    assert_eq!(refused.facts["clientId"], session.client_id.as_str());
    let refused = refusal(anybody.begin_session(Some("/nowhere")).await);
    assert_eq!(refused.code, ErrorCode::WorkspaceMismatch);
}

#[tokio::test]
async fn a_conflict_names_the_revision_of_the_winner() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let client = client(&daemon);
    let path = "/memories/global/a b/ä#%+&.md";
    let first = client.create(path, "one\n").await.unwrap().revision.unwrap();
    assert_eq!(conflict(client.create(path, "two\n").await).as_ref(), Some(&first));
    let second = client.save(path, "two\n", &first).await.unwrap().revision.unwrap();
    assert_eq!(conflict(client.save(path, "three\n", &first).await).as_ref(), Some(&second));
    assert_eq!(conflict(client.delete_revision(path, &first).await).as_ref(), Some(&second));
    let read = client.read(path).await.unwrap();
    assert_eq!((read.text.as_str(), &read.revision, read.path.as_str()), ("two\n", &second, path));
    client.delete_revision(path, &second).await.unwrap();
    assert_eq!(conflict(client.save(path, "three\n", &second).await), None, "it is gone");
    assert_eq!(refusal(client.read(path).await).code, ErrorCode::NotFound);
}

#[tokio::test]
async fn every_operation_of_the_store_is_a_call() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let client = client(&daemon);
    assert_eq!(client.health().await.unwrap().status, "ok");
    let workspace = client.capabilities().await.unwrap().workspaces[0].id.clone();
    let client = client.in_workspace(&workspace);
    client.create("/memories/global/tea.md", "- Likes tea & milk.\n").await.unwrap();
    client.create("/memories/project/make.md", "- Builds with make.\n").await.unwrap();

    assert!(client.pin("/memories/global/tea.md").await.unwrap().changed);
    let query = MemoriesQuery {
        scope: Some("global".to_owned()),
        words: Some("TEA".to_owned()),
        pinned: Some(true),
        sort: Some(Sort::Modified),
        cursor: None,
        max: Some(1),
    };
    let page = client.memories(&query).await.unwrap();
    assert_eq!((page.total, page.memories[0].path.as_str()), (1, "/memories/global/tea.md"));
    assert!(!client.unpin("/memories/global/tea.md").await.unwrap().pinned);
    let under = Some("/memories/global".to_owned());
    let search = SearchQuery { text: "tea & milk".to_owned(), under, max: Some(5) };
    assert_eq!(client.search(&search).await.unwrap().matches.len(), 1);

    client.rename("/memories/global/tea.md", "/memories/global/drinks.md").await.unwrap();
    let view = json!({ "command": "view", "path": "/memories/global/drinks.md" });
    let reply = client.tool(&view, AgentClass::Explore).await.unwrap();
    assert!(reply.ok && reply.text.contains("tea & milk"), "{reply:?}");
    let write = json!({ "command": "delete", "path": "/memories/global/drinks.md" });
    let reply = client.tool(&write, AgentClass::Explore).await.unwrap();
    assert_eq!((reply.ok, reply.code.as_deref()), (false, Some("read_only")));

    let archive = client.export().await.unwrap();
    client.delete("/memories/global").await.unwrap_err();
    client.delete("/memories/global/drinks.md").await.unwrap();
    let taken = client.import(archive.clone(), None).await.unwrap();
    assert_eq!((taken.memories.len(), taken.skipped.len()), (1, 1), "{taken:?}");
    let copies = client.import(archive, Some("/memories/global/copies")).await.unwrap();
    assert_eq!(copies.memories.len(), 2, "{copies:?}");
    assert_eq!(refusal(client.import("no tar", None).await).code, ErrorCode::InvalidArchive);
    assert_eq!(client.stats().await.unwrap().workspace_id, workspace);
    let nowhere = client.in_workspace("nowhere");
    assert_eq!(refusal(nowhere.dream().await).code, ErrorCode::WorkspaceNotFound);
    assert_eq!(refusal(nowhere.stats().await).code, ErrorCode::WorkspaceNotFound);
}

#[tokio::test]
async fn history_is_read_and_undone() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let client = client(&daemon);
    let path = "/memories/global/a.md";
    let first = client.create(path, "one\n").await.unwrap();
    let second = client.save(path, "two\n", &first.revision.unwrap()).await.unwrap();
    let change = second.change.unwrap();
    let query = ChangesQuery { path: Some(path.to_owned()), max: Some(1), ..Default::default() };
    let page = client.changes(&query).await.unwrap();
    assert_eq!(page.changes[0].id, change);
    let older = ChangesQuery { cursor: page.next_cursor, ..query };
    assert_eq!(client.changes(&older).await.unwrap().changes[0].id, first.change.unwrap());
    let shown = client.change(change).await.unwrap();
    assert!(shown.diffs[0].diff.contains("+two"), "{shown:?}");

    let blocked = refusal(client.undo(first.change.unwrap(), DryRun::No).await);
    assert_eq!((blocked.status, blocked.code), (409, ErrorCode::Conflict));
    assert_eq!(blocked.blocked()[0].path, path);
    assert_eq!(client.undo(change, DryRun::Yes).await.unwrap().change, None);
    assert_eq!(client.read(path).await.unwrap().text, "two\n");
    assert_eq!(client.undo(change, DryRun::No).await.unwrap().undone, [change]);
    assert_eq!(client.read(path).await.unwrap().text, "one\n");
    assert_eq!(refusal(client.change(999).await).code, ErrorCode::NotFound);
}

#[tokio::test]
async fn every_action_of_the_page_is_a_call() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let client = client(&daemon);
    for name in ["a", "b"] {
        client.create(&format!("global/{name}.md"), "- one\n- two\n").await.unwrap();
    }
    let item = client.memories(&MemoriesQuery::default()).await.unwrap().memories.remove(0);
    assert!(!item.has_description);
    let step = |from: &str| BatchStep::Move {
        from: format!("/memories/global/{from}.md"),
        to: format!("/memories/global/new/{from}.md"),
    };
    let moved = client.batch(vec![step("a"), step("b")]).await.unwrap().change.unwrap();
    let what = UndoSeveral { changes: Some(vec![moved]), ..UndoSeveral::default() };
    assert_eq!(client.undo_several(&what, DryRun::Yes).await.unwrap().change, None);
    assert!(client.undo_several(&what, DryRun::No).await.unwrap().change.is_some());
    let text = client.revision(&item.revision.unwrap()).await.unwrap().text;
    assert_eq!(text, "- one\n- two\n");
    remembered(&client, "I like figs.").await;
    assert_eq!(client.runs(None).await.unwrap().runs.len(), 1);
    let health = client.memory_health().await.unwrap();
    assert!(health.advice.iter().any(|one| one.kind == "missing-description"), "{health:?}");
    assert_eq!(client.repair_memories().await.unwrap().done.len(), 0);
    let settings = client.put_setting("retention.days", json!(7)).await.unwrap();
    assert!(settings.restart_needed);
    assert_eq!(client.settings().await.unwrap(), settings);
    let here = client.trust().await.unwrap().here.unwrap();
    assert!(!here.trusted);
    assert_eq!(client.put_trust(&here.path, true).await.unwrap().folders, [here.path]);
    let hosts = client.hosts().await.unwrap().hosts;
    let first = usize::try_from(hosts[0].context_bytes_max).unwrap();
    assert_eq!(client.context(Some(first)).await.unwrap().memories, 3);
}

#[tokio::test]
async fn errors_are_classified_by_their_remedy() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let url = daemon.log_lines["url"].as_str().unwrap();
    let stranger = Client::new(url.parse().unwrap(), "not-the-token").unwrap();
    let refused = refusal(stranger.capabilities().await);
    assert_eq!((refused.status, refused.code), (401, ErrorCode::Unauthorized));
    assert_eq!(stranger.health().await.unwrap().status, "ok");
    for token in ["a\nb", "a\0"] {
        let error = Client::new(url.parse().unwrap(), token).unwrap_err();
        assert!(matches!(error, ClientError::Unsendable("the token")), "{error:?}");
    }
    let client = client(&daemon);
    assert!(client.clone().with_client_id("a b").is_err());
    assert!(!format!("{client:?}").contains(TOKEN));

    let blank = refusal(client.remember(&text("  ")).await);
    assert_eq!((blank.status, blank.code), (400, ErrorCode::InvalidContent));
    let key = "key: sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl\n";
    let screened = refusal(client.create("/memories/global/key.md", key).await);
    assert_eq!((screened.status, screened.code), (422, ErrorCode::Screened));
    assert!(screened.facts.contains_key("rule"), "{screened:?}");
    let large = "x".repeat(MEMORY_BYTES_MAX + 1);
    let refused = refusal(client.create("/memories/global/big.md", &large).await);
    assert_eq!(refused.code, ErrorCode::TooLarge);
    let escape = refusal(client.create("/memories/global/../../x.md", "x").await);
    assert_eq!(escape.code, ErrorCode::InvalidPath);
    assert_eq!(refusal(client.task("nap-1").await).code, ErrorCode::RouteNotFound);

    daemon.kill();
    let gone = client.stats().await.unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable(_)), "{gone:?}");
    let waiting = client.wait_for("dream-1", Duration::from_millis(100)).await.unwrap_err();
    assert!(waiting.is_temporary(), "{waiting:?}");
}

#[tokio::test]
async fn a_peer_that_is_no_daemon_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let client = Client::new(url.parse().unwrap(), TOKEN).unwrap();
    let deadline = Duration::from_millis(100);
    let error = client.with_deadline(deadline).stats().await.unwrap_err();
    assert!(matches!(error, ClientError::TimedOut(after) if after == deadline), "{error:?}");

    let check = |answer: &'static str| async move {
        let peer = tcp_proxy::serve_text(answer);
        Client::new(peer.parse().unwrap(), TOKEN).unwrap().stats().await.unwrap_err()
    };
    let error = check("220 mail.example ESMTP\r\n").await;
    assert!(matches!(error, ClientError::Broken(_)), "{error:?}");
    let error = check("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{").await;
    assert!(matches!(error, ClientError::Broken(_)), "{error:?}");
    let error = check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
    assert!(matches!(error, ClientError::Unreadable(_)), "{error:?}");
    let error = check("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nno!").await;
    assert!(matches!(error, ClientError::Unexpected(502)), "{error:?}");

    for status in ["200 OK", "404 Not Found"] {
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: 9999999\r\n\r\n{{\"a\":\"bcdefg");
        let peer = tcp_proxy::serve_text(answer.leak());
        let client = Client::new(peer.parse().unwrap(), TOKEN).unwrap().with_answer_max(9);
        let error = client.stats().await.unwrap_err();
        assert!(matches!(error, ClientError::TooLarge(9)), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn the_client_works_over_the_socket() {
    let place = Sandbox::new();
    let _daemon = Daemon::start(&place);
    let client = Client::new(Endpoint::Socket(socket(&place)), TOKEN).unwrap();
    client.create("/memories/global/a.md", "one\n").await.unwrap();
    assert_eq!(place.view("global/a.md"), "one\n");
    assert_eq!(client.read("global/a.md").await.unwrap().text, "one\n");
    let nowhere = Client::new(Endpoint::Socket(place.path().join("none.sock")), TOKEN).unwrap();
    let error = nowhere.health().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn requests_without_effect_share_a_connection() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let line = TcpProxy::to(daemon.address());
    let client = client_at(&line.url());
    for _ in 0..5 {
        client.health().await.unwrap();
        // A refusal leaves the connection usable.
        refusal(client.read("/memories/global/none.md").await);
    }
    assert_eq!(line.accepted(), 1);
    client.dream().await.unwrap();
    assert_eq!(line.accepted(), 2, "what has an effect is not risked on it");
    let (one, other) = tokio::join!(client.health(), client.stats());
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(line.accepted(), 3);
}

#[tokio::test]
async fn a_task_is_awaited_across_a_restart_of_the_daemon() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let line = TcpProxy::to(daemon.address());
    let client = client_at(&line.url());
    remembered(&client, "I like tea.").await;
    let held = hold_locks(&place, Locks::Lanes);
    let task = client.remember(&text("I drive a bus.")).await.unwrap();
    let waiting = tokio::spawn({
        let (client, id) = (client.clone(), task.task_id.clone());
        async move { client.wait_for(&id, PATIENCE).await }
    });
    daemon.kill();
    line.cut();
    drop(held);
    let daemon = Daemon::start(&place);
    line.redirect_to(daemon.address());
    assert_eq!(waiting.await.unwrap().unwrap().status, TaskStatus::Completed);
    // The kept connection is closed, and the client opens a new one without an error.
    line.cut();
    assert_eq!(client.health().await.unwrap().status, "ok");
}

#[tokio::test]
async fn context_files_are_listed_and_written() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let client = client(&daemon);
    let write = |content: &str, mode| WriteMemory {
        scope: ContextScope::Workspace,
        content: content.to_owned(),
        mode,
    };
    let first = client.write_workspace_memory(&write("Builds with make.", None)).await.unwrap();
    assert_eq!((first.mode, first.changed), (WriteMode::Append, true));
    let listed = client.workspace_memory().await.unwrap();
    assert_eq!((listed.file_count, &listed.files[0].path), (1, &first.file_path));
    let there = client.clone().in_workspace(daemon.workspace(0));
    assert_eq!(there.workspace_memory().await.unwrap(), listed);
    let (scope, revision) = (ContextScope::Workspace, &listed.files[0].revision);
    let replaced = there.replace_workspace_memory(scope, "new\n", revision).await.unwrap();
    assert_eq!((replaced.mode, replaced.bytes_written), (WriteMode::Replace, 4));
    let current = client.workspace_memory().await.unwrap().files[0].revision.clone();
    let late = client.replace_workspace_memory(scope, "newer\n", revision).await;
    assert_eq!(conflict(late), Some(current));
    let blank = client.write_workspace_memory(&write(" ", Some(WriteMode::Append))).await.unwrap();
    assert!(!blank.changed);
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let refused = refusal(client.write_workspace_memory(&write(&secret, None)).await);
    assert_eq!(refused.code, ErrorCode::Screened);
    let unlucky = client.in_workspace("nowhere");
    assert_eq!(refusal(unlucky.workspace_memory().await).code, ErrorCode::WorkspaceNotFound);
    assert_eq!(fs::read_to_string(place.checkout().join("QWEN.md")).unwrap(), "new\n");
}

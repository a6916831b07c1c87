//! Tests of lanes with the rule curator, as the engine sets them up.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use lukasa_engine::{
    BaseFolders, BindingRequest, Caller, Config, ContextMode, CuratorRequest, Engine,
    ForgetRequest, LaneSettings, Lanes, NullFeed, RememberRequest, Requester, Task, TaskDetails,
    TaskErrorCode, TaskResult, TaskState, Workspace,
};
use memory::path::Scope;
use tempfile::TempDir;

use super::host::code;

struct EngineHome {
    folder: TempDir,
    engine: Engine,
    lanes: Lanes,
    workspace: Workspace,
}

impl EngineHome {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("shop/.git")).unwrap();
        let engine = Engine::open(config(home.path())).unwrap();
        let lanes = engine.lanes(LaneSettings::default(), Arc::new(NullFeed));
        let folder = home.path().join("shop");
        let binding =
            BindingRequest { project: Some(folder.clone().into()), ..BindingRequest::default() };
        Self { folder: home, engine, lanes, workspace: Workspace::new(folder, binding) }
    }

    async fn submit_and_wait(&self, request: CuratorRequest) -> Task {
        let requester = Requester::person("cli");
        let task = self.lanes.submit(&self.workspace, request, requester).await.unwrap();
        self.lanes.wait(&self.workspace, &task.id).await.unwrap().unwrap()
    }

    async fn texts(&self) -> Vec<(String, String)> {
        let memories = self.engine.memories(&self.workspace.binding, Caller::person("test"));
        let mut texts = Vec::new();
        for listed in memories.list(None).await.unwrap().memories {
            let text = memories.read(&listed.path).await.unwrap().text;
            texts.push((listed.path.to_string(), text));
        }
        texts
    }
}

fn config(home: &Path) -> Config {
    Config::new(BaseFolders { data: home.join("data"), state: home.join("state") })
}

fn remember(content: &str, scope: Option<Scope>) -> CuratorRequest {
    let (content, context_mode) = (content.to_owned(), ContextMode::Workspace);
    CuratorRequest::Remember(RememberRequest { content, context_mode, scope })
}

fn forget(query: &str) -> CuratorRequest {
    CuratorRequest::Forget(ForgetRequest { query: query.to_owned(), scope: None, file: None })
}

fn result(task: &Task) -> &TaskResult {
    match &task.state {
        TaskState::Completed(result) => result,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn remember_forget_and_dream_change_the_memories() {
    let home = EngineHome::new();
    let task = home.submit_and_wait(remember("I keep bees.", None)).await;
    let TaskDetails::Remember { files_touched } = &result(&task).details else { panic!() };
    assert_eq!((files_touched.len(), result(&task).scopes.len()), (1, 1));
    assert!(home.texts().await[0].1.contains("I keep bees"));
    // A known entry is not written again.
    let task = home.submit_and_wait(remember("I keep bees.", None)).await;
    let TaskDetails::Remember { files_touched } = &result(&task).details else { panic!() };
    assert_eq!(files_touched, &[]);
    let task = home.submit_and_wait(forget("forget the bees")).await;
    let TaskDetails::Forget { removed, .. } = &result(&task).details else { panic!() };
    assert_eq!(removed.len(), 1);
    assert_eq!(home.texts().await, []);
    let folder = home.folder.path().join("data/memory");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.md"), "- The pier gate opens at six\n- Gates are green\n").unwrap();
    fs::write(folder.join("a-2.md"), "- the pier gate opens at six.\n").unwrap();
    let task = home.submit_and_wait(CuratorRequest::Dream).await;
    let TaskDetails::Dream { deduped, .. } = &result(&task).details else { panic!() };
    assert_eq!(*deduped, 1);
    assert_eq!(home.texts().await.len(), 1);
    home.lanes.drain(std::time::Duration::from_secs(5)).await;
    home.engine.close().await;
}

#[tokio::test]
async fn a_refused_remember_fails_with_a_code_of_its_own() {
    let home = EngineHome::new();
    let secret = "The key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123";
    let task = home.submit_and_wait(remember(secret, None)).await;
    assert_eq!(code(&task), Some(TaskErrorCode::Screened));
    let TaskState::Failed(error) = &task.state else { panic!() };
    assert_eq!(error.details(), Some("the text matches the secrets rule `secrets.github-token`"));
    let task =
        home.submit_and_wait(remember("The pier opens at six.", Some(Scope::Workspace))).await;
    assert_eq!(code(&task), Some(TaskErrorCode::RememberScopeMismatch));
    assert_eq!(home.texts().await, []);
    home.engine.close().await;
}

#[tokio::test]
async fn a_request_is_stored_until_its_task_ends_and_a_secret_is_never_stored() {
    let home = EngineHome::new();
    let holds = |text: &str| {
        let mut bytes = Vec::new();
        for entry in fs::read_dir(home.engine.state_file().unwrap().parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                bytes.extend(fs::read(path).unwrap());
            }
        }
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    let name = format!("lane-{}", home.workspace.id);
    let lock = config(home.folder.path()).folders.lock(&name);
    let lock = lock.acquire(state::LockMode::Exclusive).await.unwrap();
    let bees = "I keep bees, in three hives behind the shed, and each of them has a queen from another breeder.";
    let mut tasks = Vec::new();
    for request in [
        remember("The key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123", None),
        remember(bees, None),
        forget("the key xoxb-2345678901-abcdefghij"),
    ] {
        let requester = Requester::person("cli");
        tasks.push(home.lanes.submit(&home.workspace, request, requester).await.unwrap());
    }
    assert_eq!((holds(bees), holds("ghp_"), holds("xoxb-")), (true, false, true));
    drop(lock);
    for task in &tasks {
        home.lanes.wait(&home.workspace, &task.id).await.unwrap();
    }
    home.lanes.drain(std::time::Duration::from_secs(5)).await;
    home.engine.close().await;
    assert_eq!((holds(bees), holds("ghp_"), holds("xoxb-")), (false, false, false));
}

#[tokio::test]
async fn the_result_of_a_forget_does_not_contain_the_secret() {
    let home = EngineHome::new();
    let folder = home.folder.path().join("data/memory");
    fs::create_dir_all(&folder).unwrap();
    let text = "- The bot token is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123\n- I keep bees\n";
    fs::write(folder.join("keys.md"), text).unwrap();
    let task = home.submit_and_wait(forget("bot token")).await;
    let TaskResult { summary, details: TaskDetails::Forget { removed, .. }, .. } = result(&task)
    else {
        panic!()
    };
    let summaries = removed.iter().map(|removed| removed.summary.as_str()).collect::<Vec<_>>();
    assert_eq!(summaries.len(), 1);
    assert!(
        summaries[0].contains("bot token") && !summaries[0].contains("ghp_"),
        "{summaries:?} {summary}"
    );
    assert!(!summary.contains("ghp_"), "{summary}");
    assert_eq!(home.texts().await[0].1, "- I keep bees\n");
}

#[tokio::test]
async fn a_dry_run_shows_the_changes_and_makes_none() {
    let home = EngineHome::new();
    home.submit_and_wait(remember("I keep bees.", None)).await;
    let before = home.texts().await;
    let requester = Requester::person("cli");
    let outcome = home.lanes.preview(&home.workspace, &forget("bees"), &requester).await;
    let preview = outcome.unwrap();
    let TaskDetails::Forget { removed, .. } = &preview.result.details else { panic!() };
    assert_eq!(removed.len(), 1);
    let [diff] = preview.diffs.as_slice() else { panic!("{:?}", preview.diffs) };
    assert_eq!((diff.after.as_deref(), diff.is_complete), (None, true));
    assert!(diff.unified.contains("-- I keep bees."), "{}", diff.unified);
    let secret = remember("password = h4rdT0Gue55x9q", None);
    let outcome = home.lanes.preview(&home.workspace, &secret, &requester).await;
    let Err(lukasa_engine::TaskPreviewError::Task(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.code, TaskErrorCode::Screened);
    assert_eq!(home.texts().await, before);
    let tasks = home.lanes.list(
        &home.workspace,
        lukasa_engine::TaskFilter::default(),
        lukasa_engine::Viewer::Person,
    );
    assert_eq!(tasks.await.unwrap().len(), 1, "a dry run is not a task");
    home.engine.close().await;
}

#[tokio::test]
async fn a_pinned_memory_is_not_forgotten() {
    let home = EngineHome::new();
    let task = home.submit_and_wait(remember("I keep bees.", None)).await;
    let TaskDetails::Remember { files_touched } = &result(&task).details else { panic!() };
    let memories = home.engine.memories(&home.workspace.binding, Caller::person("test"));
    memories.set_pin(&files_touched[0], true).await.unwrap();
    let task = home.submit_and_wait(forget("bees")).await;
    let TaskDetails::Forget { removed, .. } = &result(&task).details else { panic!() };
    assert_eq!(removed, &[]);
    assert_eq!(home.texts().await.len(), 1);
    home.engine.close().await;
}

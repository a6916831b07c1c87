//! Tests of the workspaces of a host: listing with checkouts, removal with memories.

use std::fs;
use std::path::Path;

use lukasa_engine::{
    BindingRequest, CallContext, Caller, Checkout, DryRun, Engine, ProjectRoot, UndoTarget,
    Workspace, WorkspaceChoice, WorkspaceId, WorkspaceRemovalError,
};
use memory::clock::Timestamp;
use memory::command::Reply;
use state::{NewTask, SqliteState, TaskKind, TaskStore as _};

use super::{config, create, path};

fn checkout(home: &std::path::Path) -> (WorkspaceId, BindingRequest) {
    fs::create_dir_all(home.join("app/.git")).unwrap();
    let folder = fs::canonicalize(home.join("app")).unwrap();
    let binding = BindingRequest {
        project: Some(folder.clone().into()),
        project_root: ProjectRoot::Host,
        workspace: WorkspaceChoice::Checkout,
        ..BindingRequest::default()
    };
    (Checkout::find(&folder).unwrap().workspace(), binding)
}

async fn write(engine: &Engine, binding: &BindingRequest, names: &[&str]) {
    let memories = engine.memories(binding, Caller::person("test"));
    for name in names {
        let made = create(&format!("/memories/workspace/{name}"), "one\n");
        let reply = memories.apply(made, &CallContext::default()).await.unwrap();
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    }
}

#[tokio::test]
async fn a_workspace_is_listed_with_its_checkout_and_its_removal_can_be_undone() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(config(home.path())).unwrap();
    assert_eq!(engine.workspaces().await.unwrap(), []);
    let (id, binding) = checkout(home.path());
    write(&engine, &binding, &["plan.md", "notes/a.md"]).await;
    let other: WorkspaceId = "other".parse().unwrap();
    let named = WorkspaceChoice::Id(other.clone());
    write(&engine, &BindingRequest { workspace: named, ..binding.clone() }, &["b.md"]).await;
    let summaries = |listed: Vec<lukasa_engine::HostWorkspace>| -> Vec<_> {
        let summary = |workspace: lukasa_engine::HostWorkspace| {
            (
                workspace.id,
                workspace.checkout,
                workspace.checkout_exists,
                workspace.memories,
                workspace.bytes,
            )
        };
        listed.into_iter().map(summary).collect()
    };
    let remaining = (other, None, false, 1, 4);
    let listed = summaries(engine.workspaces().await.unwrap());
    let expected = (id.clone(), binding.local_project().map(Path::to_owned), true, 2, 8);
    assert_eq!(listed, [expected, remaining.clone()]);

    fs::remove_dir_all(home.path().join("app/.git")).unwrap();
    fs::remove_dir_all(home.path().join("app")).unwrap();
    assert!(!engine.workspaces().await.unwrap()[0].checkout_exists);
    let removal = engine.remove_workspace(&id, Caller::person("test"), &[]).await.unwrap();
    let removed = ["/memories/workspace/notes/a.md", "/memories/workspace/plan.md"].map(path);
    assert_eq!((removal.memories.as_slice(), removal.remaining_folder), (&removed[..], None));
    assert_eq!(summaries(engine.workspaces().await.unwrap()), [remaining]);
    let again = engine.remove_workspace(&id, Caller::person("test"), &[]).await;
    assert!(matches!(again, Err(WorkspaceRemovalError::NotFound(_))), "{again:?}");

    let binding =
        BindingRequest { workspace: WorkspaceChoice::Id(id), ..BindingRequest::default() };
    let memories = engine.memories(&binding, Caller::person("test"));
    let target = UndoTarget::Change(removal.change.unwrap());
    memories.undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
    assert_eq!(engine.workspaces().await.unwrap()[0].memories, 2);
    engine.close().await;
}

#[tokio::test]
async fn a_workspace_with_waiting_tasks_is_not_removed() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(config(home.path())).unwrap();
    let (id, binding) = checkout(home.path());
    let folder = binding.local_project().unwrap().to_owned();
    let named: WorkspaceId = "named".parse().unwrap();
    let other = BindingRequest { workspace: WorkspaceChoice::Id(named.clone()), ..binding.clone() };
    let state = SqliteState::new(engine.state_file().unwrap().to_owned());
    let served = [binding, other].map(|binding| Workspace::new(folder.clone(), binding));
    for (workspace, id) in served.iter().zip([&id, &named]) {
        assert_eq!(workspace.memory_workspace().as_ref(), Some(id));
        write(&engine, &workspace.binding, &["plan.md"]).await;
        let task = NewTask {
            id: format!("remember-{id}"),
            workspace: workspace.id.clone(),
            kind: TaskKind::Remember,
            client: None,
            request: "{}".to_owned(),
            at: Timestamp::default(),
        };
        state.enqueue(task, lukasa_engine::LaneSettings::default().limits).await.unwrap();
        let refused = engine.remove_workspace(id, Caller::person("test"), &served).await;
        assert!(matches!(refused, Err(WorkspaceRemovalError::Busy(_))), "{id}: {refused:?}");
    }
    let left = engine.workspaces().await.unwrap();
    assert_eq!(left.iter().map(|one| one.memories).collect::<Vec<_>>(), [1, 1]);
    engine.close().await;
}

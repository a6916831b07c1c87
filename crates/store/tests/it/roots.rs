//! The roots of the three scopes: permissions, generated indexes, and identities.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lukasa_store::{BaseFolders, Binding, BindingRequest, Caller, ChangesQuery, Memories};
use serde_json::json;

use crate::host::{TestHost, answer, at, call, create, rename, replace, texts};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn files_outside_a_checkout_are_private() {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    let agent = host.agent(&store);
    for scope in ["global", "project", "workspace"] {
        create(&agent, &format!("/memories/{scope}/d/e/a.md"), "one\n").await;
        replace(&agent, &format!("/memories/{scope}/d/e/a.md"), "one", "two").await;
        let (from, to) = ("d/e/a.md", "f/b.md");
        rename(&agent, &format!("/memories/{scope}/{from}"), &format!("/memories/{scope}/{to}"))
            .await;
    }
    store.checkpoint().await;
    store.close().await;
    let workspace = host.path("state/workspaces/ws-42/memory");
    for private in ["data", "data/memory", "data/memory/f", "state", "state/locks"] {
        assert_eq!(mode(&host.path(private)), 0o700, "{private}");
    }
    for folder in [&workspace, &workspace.join("f")] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    for private in ["data/memory/f/b.md", "state/lukasa.db"] {
        assert_eq!(mode(&host.path(private)), 0o600, "{private}");
    }
    assert_eq!(mode(&workspace.join("f/b.md")), 0o600);
    for lock in fs::read_dir(host.path("state/locks")).unwrap() {
        assert_eq!(mode(&lock.unwrap().path()), 0o600);
    }
    // In a checkout the person's umask decides, as for all other files.
    let (like, folder) = (host.project("like.md"), host.project("like"));
    fs::write(&like, "").unwrap();
    fs::create_dir(&folder).unwrap();
    assert_eq!(mode(&host.project("f/b.md")), mode(&like));
    assert_eq!(mode(&host.project("f")), mode(&folder));
}

#[tokio::test]
async fn empty_scopes_are_listed() {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    let view = json!({"command": "view", "path": "/memories"});
    insta::assert_snapshot!(call(&host.agent(&store), view.clone()).await, @"
    Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:
    0B	/memories
    0B	/memories/global/
    0B	/memories/project/
    0B	/memories/workspace/
    ");
    let alone = Binding::resolve(&BindingRequest::default(), &folders(&host));
    let alone = store.memories(alone, Caller::person("test"));
    insta::assert_snapshot!(call(&alone, view).await, @"
    Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:
    0B	/memories
    0B	/memories/global/
    0B	/memories/project/	(unavailable: no project is associated with this session)
    0B	/memories/workspace/	(unavailable: no workspace is associated with this session)
    ");
    let (reply, code) = answer(
        &alone,
        json!({"command": "create", "path": "/memories/project/a.md", "file_text": "x"}),
    )
    .await;
    assert_eq!(code.as_deref(), Some("scope_unavailable"));
    assert_eq!(reply, "Project memory is unavailable: no project is associated with this session");
}

fn folders(host: &TestHost) -> BaseFolders {
    BaseFolders { data: host.path("data"), state: host.path("state") }
}

fn in_another_project(host: &TestHost, store: &std::sync::Arc<lukasa_store::Store>) -> Memories {
    fs::create_dir_all(host.path("other/.git")).unwrap();
    let request = BindingRequest {
        project: Some(host.path("other").into()),
        workspace: lukasa_store::WorkspaceChoice::Id("ws-7".parse().unwrap()),
        ..BindingRequest::default()
    };
    store.memories(Binding::resolve(&request, &folders(host)), Caller::person("test"))
}

#[tokio::test]
async fn global_memories_are_visible_in_every_project_and_others_in_their_own() {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    let agent = host.agent(&store);
    for scope in ["global", "project", "workspace"] {
        create(&agent, &format!("/memories/{scope}/a.md"), "one\n").await;
    }
    let listed = in_another_project(&host, &store).list(None).await.unwrap().memories;
    let listed: Vec<_> = listed.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(listed, ["/memories/global/a.md"]);
    // Names in history, pins and usage do not contain a path of the disk.
    let query = ChangesQuery { max: 9, ..ChangesQuery::default() };
    let changes = agent.changes(&query).await.unwrap();
    let home = host.path("").display().to_string();
    for file in changes.iter().flat_map(|change| &change.files) {
        assert!(!file.root.identity.contains(home.trim_end_matches('/')), "{:?}", file.root);
        assert!(!file.root.identity.contains("/shop"), "{:?}", file.root);
    }
    assert_eq!(changes.len(), 3);
}

#[tokio::test]
async fn a_generated_list_is_kept_in_host_local_roots_and_is_read_only() {
    let mut host = TestHost::in_fast_storage();
    host.settings.memory_list = true;
    let store = host.store();
    let agent = host.agent(&store);
    let text = "---\nname: Preferences\ndescription: how I like it\n---\n- tabs\n";
    for scope in ["global", "project", "workspace"] {
        create(&agent, &format!("/memories/{scope}/b/prefs.md"), text).await;
        create(&agent, &format!("/memories/{scope}/a.md"), "- plain\n").await;
    }
    store.checkpoint().await;
    let list = fs::read_to_string(host.global("MEMORY.md")).unwrap();
    insta::assert_snapshot!(list, @r"
    <!-- Written by Lukasa from the memories in this folder. Changes made here are lost. -->
    - [a.md](a.md) — plain
    - [Preferences](b/prefs.md) — how I like it
    ");
    assert_eq!(
        fs::read_to_string(host.path("state/workspaces/ws-42/memory/MEMORY.md")).unwrap(),
        list
    );
    assert!(!host.project("MEMORY.md").exists());
    let surveyed = agent.scan_roots().await.unwrap();
    let surveyed: Vec<_> = surveyed.iter().map(|one| one.path.to_string()).collect();
    let listed = agent.list(None).await.unwrap().memories;
    let listed: Vec<_> = listed.iter().map(|one| one.path.to_string()).collect();
    let lists = ["global", "workspace"].map(|scope| format!("/memories/{scope}/MEMORY.md"));
    assert!(lists.iter().all(|list| surveyed.contains(list)), "{surveyed:?}");
    let memories: Vec<_> = surveyed.into_iter().filter(|one| !lists.contains(one)).collect();
    assert_eq!((memories.len(), &memories), (6, &listed));
    let path = "/memories/global/MEMORY.md";
    for refused in [
        json!({"command": "create", "path": path, "file_text": "x"}),
        json!({"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"}),
        json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"}),
        json!({"command": "delete", "path": path}),
        json!({"command": "rename", "old_path": path, "new_path": "/memories/global/c.md"}),
        json!({"command": "rename", "old_path": "/memories/global/a.md", "new_path": path}),
    ] {
        let (reply, code) = answer(&agent, refused.clone()).await;
        assert!(code.is_some(), "{refused}: {reply}");
    }
    let listed = agent.list(Some(&at("/memories/global"))).await.unwrap().memories;
    assert_eq!(listed.len(), 2, "the list is not a memory");
    assert_eq!(fs::read_to_string(host.global("MEMORY.md")).unwrap(), list);
    // The list follows the memories, and a person's own file of that name stays unchanged.
    crate::host::delete(&agent, "/memories/global/b").await;
    store.checkpoint().await;
    let list = fs::read_to_string(host.global("MEMORY.md")).unwrap();
    assert!(!list.contains("prefs.md") && list.contains("(a.md)"), "{list}");
    fs::write(host.global("MEMORY.md"), "# Mine\n").unwrap();
    create(&agent, "/memories/global/c.md", "- c\n").await;
    store.checkpoint().await;
    let files = texts(&host.global(""));
    assert!(files.contains(&("MEMORY.md".to_owned(), "# Mine\n".to_owned())), "{files:?}");
}

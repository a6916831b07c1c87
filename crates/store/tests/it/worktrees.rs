//! Checkouts of one repository, created by git itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lukasa_store::{
    BaseFolders, Binding, BindingRequest, Caller, ChangesQuery, Memories, ProjectRoot, Store,
};

use crate::host::{TestHost, at, create, table, texts};

const PATH: &str = "/memories/project/a.md";

fn git(folder: &Path, arguments: &[&str]) {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Creates a repository with a worktree, and a folder that only claims to be a worktree.
fn repository(host: &TestHost) -> [PathBuf; 3] {
    let (main, side, thief) = (host.path("repo"), host.path("side"), host.path("thief"));
    fs::create_dir(&main).unwrap();
    git(&main, &["init", "-q", "-b", "main"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&main, &["worktree", "add", "-q", "../side"]);
    fs::create_dir(&thief).unwrap();
    fs::copy(side.join(".git"), thief.join(".git")).unwrap();
    [main, side, thief]
}

fn person(host: &TestHost, store: &Arc<Store>, checkout: &Path, root: ProjectRoot) -> Memories {
    let request = BindingRequest {
        project: Some(checkout.to_owned().into()),
        project_root: root,
        ..BindingRequest::default()
    };
    let folders = BaseFolders { data: host.path("data"), state: host.path("state") };
    store.memories(Binding::resolve(&request, &folders), Caller::person("test"))
}

async fn pinned(memories: &Memories) -> Vec<(String, bool)> {
    let listed = memories.list(None).await.unwrap().memories;
    listed.iter().map(|one| (one.path.to_string(), one.pinned)).collect()
}

#[tokio::test]
async fn worktrees_share_pins_but_not_files_or_history() {
    let host = TestHost::new();
    let checkouts = repository(&host);
    let store = host.store();
    let [main, side, thief] =
        checkouts.each_ref().map(|checkout| person(&host, &store, checkout, ProjectRoot::Repo));
    create(&main, PATH, "main\n").await;
    main.set_pin(&at(PATH), true).await.unwrap();
    assert_eq!(pinned(&side).await, []);
    create(&side, PATH, "side\n").await;
    create(&thief, PATH, "thief\n").await;
    let pin = |pin| vec![(PATH.to_owned(), pin)];
    assert_eq!(pinned(&main).await, pin(true));
    assert_eq!(pinned(&side).await, pin(true));
    assert_eq!(pinned(&thief).await, pin(false));
    for (checkout, text) in checkouts.iter().zip(["main\n", "side\n", "thief\n"]) {
        assert_eq!(texts(&checkout.join(".lukasa/memory")), table(&[("a.md", text)]));
    }
    let query = ChangesQuery { max: 9, ..ChangesQuery::default() };
    for memories in [&main, &side, &thief] {
        assert_eq!(memories.changes(&query).await.unwrap().len(), 1);
    }
    // There is one pin, and a delete in either worktree drops it; the other file stays.
    crate::host::delete(&side, PATH).await;
    assert_eq!(pinned(&main).await, pin(false));
}

#[tokio::test]
async fn a_repair_keeps_the_pin_of_a_memory_in_another_worktree() {
    let host = TestHost::new();
    let checkouts = repository(&host);
    let store = host.store();
    let [main, side, _] =
        checkouts.each_ref().map(|checkout| person(&host, &store, checkout, ProjectRoot::Repo));
    create(&main, PATH, "a\n").await;
    main.set_pin(&at(PATH), true).await.unwrap();
    // The other worktree has the file from git, and Lukasa has never read it there.
    let other_root = checkouts[1].join(".lukasa/memory");
    fs::create_dir_all(&other_root).unwrap();
    fs::write(other_root.join("a.md"), "a\n").unwrap();
    fs::remove_file(checkouts[0].join(".lukasa/memory/a.md")).unwrap();
    let orphaned = async || {
        let health = main.health(lukasa_store::Depth::Quick).await.unwrap();
        health
            .findings
            .iter()
            .any(|found| found.kind == lukasa_store::HealthFindingKind::OrphanedState)
    };
    assert!(!orphaned().await);
    main.repair().await.unwrap();
    assert_eq!(pinned(&side).await, [(PATH.to_owned(), true)]);
    fs::remove_file(other_root.join("a.md")).unwrap();
    assert!(orphaned().await);
    main.repair().await.unwrap();
    assert!(!orphaned().await);
}

#[tokio::test]
async fn a_host_local_project_root_is_shared_by_real_worktrees_only() {
    let host = TestHost::new();
    let checkouts = repository(&host);
    let store = host.store();
    let [main, side, thief] =
        checkouts.each_ref().map(|checkout| person(&host, &store, checkout, ProjectRoot::Host));
    create(&main, PATH, "shared\n").await;
    assert_eq!(side.read(&at(PATH)).await.unwrap().text, "shared\n");
    assert_eq!(thief.read(&at(PATH)).await.unwrap_err().code().as_ref(), "not_found");
    for checkout in &checkouts {
        assert!(!checkout.join(".lukasa").exists());
    }
}

#[tokio::test]
async fn a_branch_checkout_is_recorded_as_an_external_edit() {
    let host = TestHost::new();
    let [main, ..] = repository(&host);
    let store = host.store();
    let memories = person(&host, &store, &main, ProjectRoot::Repo);
    create(&memories, PATH, "on main\n").await;
    create(&memories, "/memories/project/b.md", "only on main\n").await;
    git(&main, &["add", "."]);
    git(&main, &["commit", "-q", "-m", "memories"]);
    git(&main, &["checkout", "-q", "-b", "other", "HEAD~"]);
    assert_eq!(memories.record_external_edits().await.unwrap(), 2);
    create(&memories, PATH, "on the other\n").await;
    git(&main, &["add", "."]);
    git(&main, &["commit", "-q", "-m", "another memory"]);
    git(&main, &["checkout", "-q", "main"]);
    assert_eq!(memories.record_external_edits().await.unwrap(), 2);
    let on_main = table(&[("a.md", "on main\n"), ("b.md", "only on main\n")]);
    assert_eq!(texts(&main.join(".lukasa/memory")), on_main);
    let query = ChangesQuery { max: 9, path: Some(at(PATH)), ..ChangesQuery::default() };
    let changes = memories.changes(&query).await.unwrap();
    let kinds: Vec<_> = changes.iter().map(|change| change.kind.as_ref()).collect();
    assert_eq!(kinds, ["outside", "create", "outside", "create"]);
    assert!(create(&memories, PATH, "x\n").await.contains("already exists"));
}

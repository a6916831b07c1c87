//! Bindings that are resolved from real checkouts.

#![expect(clippy::disallowed_methods, reason = "the tests create real checkouts")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

fn folders(home: &Path) -> BaseFolders {
    BaseFolders { data: home.join("data"), state: home.join("state") }
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
}

fn key(binding: &Binding, mount: Mount) -> RootKey {
    let spec = binding.mounts.iter().find(|spec| spec.mount == mount).unwrap();
    spec.root.as_ref().unwrap().key.clone()
}

fn project(dir: &Path, home: &Path) -> RootKey {
    let request = BindingRequest { project: Some(dir.to_owned().into()), ..Default::default() };
    key(&Binding::resolve(&request, &folders(home)), Mount::Scope(Scope::Project))
}

#[test]
fn a_folder_without_git_has_no_project_and_gives_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let request =
        BindingRequest { project: Some(home.path().to_owned().into()), ..Default::default() };
    let binding = Binding::resolve(&request, &folders(home.path()));
    let reasons: Vec<_> =
        binding.mounts.iter().map(|spec| spec.root.as_ref().err().cloned()).collect();
    assert_eq!(
        reasons,
        [
            None,
            Some("no project is associated with this session".to_owned()),
            Some("no workspace is associated with this session".to_owned()),
        ]
    );
}

#[test]
fn a_subfolder_resolves_to_the_top_of_its_checkout() {
    let home = tempfile::tempdir().unwrap();
    let top = home.path().join("shop");
    fs::create_dir_all(top.join("src/deep")).unwrap();
    git(&top, &["init", "-q"]);
    let found = Checkout::find(&top.join("src/deep")).unwrap();
    assert_eq!(found.root, fs::canonicalize(&top).unwrap());
    assert!(found.identity.starts_with("shop-"), "{}", found.identity);
    assert_eq!(project(&top, home.path()), project(&top.join("src"), home.path()));
}

#[test]
fn projects_with_the_same_folder_name_differ() {
    let home = tempfile::tempdir().unwrap();
    let keys = ["a/my shop", "b/my shop"].map(|path| {
        let top = home.path().join(path);
        fs::create_dir_all(top.join(".git")).unwrap();
        project(&top, home.path())
    });
    assert_ne!(keys[0].identity, keys[1].identity);
    for key in keys {
        assert!(key.identity.starts_with("project:my-shop-"), "{}", key.identity);
    }
}

#[test]
fn worktrees_share_an_identity_but_not_a_place() {
    let home = tempfile::tempdir().unwrap();
    let top = home.path().join("shop");
    fs::create_dir_all(&top).unwrap();
    git(&top, &["init", "-q"]);
    git(&top, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&top, &["worktree", "add", "-q", "../side"]);
    let (main, side) =
        (project(&top, home.path()), project(&home.path().join("side"), home.path()));
    assert_eq!(main.identity, side.identity);
    assert_ne!(main.place, side.place);
}

fn workspace(dir: &Path, choice: WorkspaceChoice, home: &Path) -> Result<RootKey, String> {
    let request = BindingRequest {
        project: Some(dir.to_owned().into()),
        workspace: choice,
        ..Default::default()
    };
    let mut mounts = Binding::resolve(&request, &folders(home)).mounts;
    mounts.pop().unwrap().root.map(|root| root.key)
}

#[test]
fn each_worktree_has_one_workspace_for_all_its_folders() {
    let home = tempfile::tempdir().unwrap();
    let (top, side) = (home.path().join("my shop"), home.path().join("side"));
    fs::create_dir_all(top.join("src")).unwrap();
    git(&top, &["init", "-q"]);
    git(&top, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&top, &["worktree", "add", "-q", "../side"]);
    symlink(&top, home.path().join("link")).unwrap();
    let resolve = |dir: &Path| workspace(dir, WorkspaceChoice::Checkout, home.path());
    let main = resolve(&top).unwrap();
    assert!(main.identity.starts_with("workspace:my-shop-"), "{}", main.identity);
    for same in [top.join("src"), home.path().join("link/src")] {
        assert_eq!(resolve(&same).as_ref(), Ok(&main), "{same:?}");
    }
    assert_ne!(resolve(&side).unwrap().identity, main.identity);
    let id = Checkout::find(&side).unwrap().workspace();
    assert_eq!(id.to_string().parse(), Ok(id.clone()), "a person can enter the id");
    assert_eq!(resolve(&side), workspace(&top, WorkspaceChoice::Id(id), home.path()));
    let none = Err("no workspace is associated with this session".to_owned());
    assert_eq!(resolve(home.path()), none, "outside a checkout");
    assert_eq!(workspace(&top, WorkspaceChoice::None, home.path()), none);
}

#[test]
fn a_folder_that_only_claims_to_be_a_worktree_is_a_project_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let top = home.path().join("shop");
    fs::create_dir_all(&top).unwrap();
    git(&top, &["init", "-q"]);
    git(&top, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&top, &["worktree", "add", "-q", "../side"]);
    let thief = home.path().join("thief");
    fs::create_dir_all(&thief).unwrap();
    fs::copy(home.path().join("side/.git"), thief.join(".git")).unwrap();
    assert_ne!(project(&thief, home.path()).identity, project(&top, home.path()).identity);
}

#[test]
fn two_paths_to_one_folder_have_one_key() {
    let home = tempfile::tempdir().unwrap();
    let real = home.path().join("real");
    fs::create_dir_all(&real).unwrap();
    symlink(&real, home.path().join("link")).unwrap();
    let place = |data: PathBuf| {
        let folders = BaseFolders { data, state: home.path().join("state") };
        let binding = Binding::resolve(&BindingRequest::default(), &folders);
        key(&binding, Mount::Scope(Scope::Global)).place
    };
    assert_eq!(place(real), place(home.path().join("link")));
}

#[test]
fn workspaces_of_a_named_project_share_its_root() {
    let home = tempfile::tempdir().unwrap();
    let folders = folders(home.path());
    let root = |id: &str, scope| {
        let workspace = WorkspaceChoice::Id(id.parse().unwrap());
        let request = BindingRequest { workspace, ..BindingRequest::default() };
        let binding = Binding::resolve(&request, &folders);
        let spec = binding.mounts.into_iter().find(|spec| spec.mount == Mount::Scope(scope));
        spec.unwrap().root.map(|root| root.key)
    };
    let shop = root("main@shop", Scope::Project).unwrap();
    assert_eq!(shop.identity, "project:shop");
    assert_eq!(root("other@shop", Scope::Project), Ok(shop.clone()));
    assert_ne!(root("main@mill", Scope::Project), Ok(shop));
    root("main", Scope::Project).unwrap_err();
    let workspaces = ["main", "main@shop", "other@shop", "main@mill"];
    let workspaces: HashSet<_> = workspaces.map(|id| root(id, Scope::Workspace).unwrap()).into();
    assert_eq!(workspaces.len(), 4);
}

#[test]
fn a_workspace_id_is_a_safe_folder_name() {
    let longest = format!("{0}@{0}", "x".repeat(64));
    for good in ["ws-42", "A.b_c", &"x".repeat(64), "main@shop", "a.b@c-d", &longest] {
        assert_eq!(good.parse::<WorkspaceId>().map(|id| id.to_string()), Ok(good.to_owned()));
    }
    let bad = ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a\0", &"x".repeat(65)];
    let with_project = ["@", "a@", "@b", "a@b@c", "a@.b", "a@..", "a@b/c", ".a@b"];
    for bad in bad.into_iter().chain(with_project) {
        assert_eq!(bad.parse::<WorkspaceId>(), Err(InvalidWorkspaceId), "{bad:?}");
    }
}

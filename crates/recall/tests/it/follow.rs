//! A corpus that follows files, whoever writes them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use memory::access::AgentClass;
use memory::path::{Mount, Scope};
use memory::screen::Screen;
use recall::{Brought, Followed, Options};
use store::{Binding, BindingRequest, Caller, Folders, Memories, Settings, Store};
use tempfile::TempDir;
use testkit::ManualClock;

/// A store of its own, and the folder of its project's memories.
fn memories() -> (TempDir, PathBuf, Memories) {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("shop/.git")).unwrap();
    let folders = Folders { data: home.path().join("data"), state: home.path().join("state") };
    let state = testkit::sqlite_state(&folders.state);
    let clock = Arc::new(ManualClock::default());
    let store = Store::new(state, folders.clone(), Screen::default(), clock, Settings::default());
    let project_dir = Some(home.path().join("shop"));
    let checkout = BindingRequest { project_dir, ..BindingRequest::default() };
    let binding = Binding::resolve(&checkout, &folders);
    let memories = store.memories(binding, Caller::agent(AgentClass::Exec, "test"));
    let mounts = memories.mounts();
    let project = mounts.iter().find(|one| one.mount == Mount::Scope(Scope::Project)).unwrap();
    let folder = project.folder.clone().unwrap();
    fs::create_dir_all(&folder).unwrap();
    (home, folder, memories)
}

fn found(followed: &Followed, prompt: &str) -> Vec<String> {
    let hits =
        followed.corpus().rank(prompt, &Options { limit: 5, abstain: false, by_sense: false });
    hits.iter().map(|hit| hit.path.to_string()).collect()
}

#[tokio::test]
async fn what_is_written_beside_the_store_is_followed() {
    let (_home, folder, memories) = memories();
    let mut followed = Followed::new(Screen::default());
    assert_eq!(followed.bring(&memories).await.unwrap(), Brought::default());
    fs::write(folder.join("pier.md"), "- The pier is closed in winter\n").unwrap();
    fs::write(folder.join("crane.md"), "- The crane lifts nine tons\n").unwrap();
    assert_eq!(followed.bring(&memories).await.unwrap(), Brought { read: 2, gone: 0 });
    assert_eq!(found(&followed, "crane"), ["/memories/project/crane.md"]);
    fs::write(folder.join("pier.md"), "- The gangway is closed in winter\n").unwrap();
    fs::remove_file(folder.join("crane.md")).unwrap();
    let brought = followed.bring(&memories).await.unwrap();
    assert_eq!((brought.read, brought.gone), (1, 1));
    assert_eq!(found(&followed, "crane tons"), [""; 0]);
    assert_eq!(found(&followed, "gangway"), ["/memories/project/pier.md"]);
}

#[tokio::test]
async fn what_cannot_be_read_any_more_is_left_out() {
    let (_home, folder, memories) = memories();
    let mut followed = Followed::new(Screen::default());
    fs::write(folder.join("pier.md"), "- The pier is closed in winter\n").unwrap();
    followed.bring(&memories).await.unwrap();
    assert_eq!(followed.corpus().memories(), 1);
    fs::write(folder.join("pier.md"), [0xFF, 0xFE, 0x00]).unwrap();
    followed.bring(&memories).await.unwrap();
    assert_eq!(followed.corpus().memories(), 0);
}

//! Events of changes by this program, other processes and editors.

use lukasa::{Actor, ChangeKind, Event, MemoryEvents};

use crate::{TestHome, person};

async fn next(events: &mut MemoryEvents) -> Event {
    events.next().await.expect("the home is open")
}

#[tokio::test]
async fn changes_pins_tasks_and_external_edits_are_published() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    // An existing folder is watched at once.
    memories.create("global/z.md", "- one\n").await.unwrap();
    let mut events = memories.events().await.unwrap();

    let made = memories.create("global/a.md", "- one\n").await.unwrap();
    let Event::Changed { path, change, kind, by, revision, .. } = next(&mut events).await else {
        panic!("the first event is the change")
    };
    assert_eq!(
        (path.to_string().as_str(), kind, by),
        ("/memories/global/a.md", ChangeKind::Create, Actor::Person)
    );
    assert_eq!((Some(change), revision), (made.change, made.revision));

    memories.pin("global/a.md").await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Pinned { is_pinned: true, .. }));

    let report = memories.remember("I work at night").await.unwrap();
    let Event::TaskDone { task, .. } = next(&mut events).await else {
        panic!("the next event is the task")
    };
    assert_eq!(task, report.id);

    std::fs::write(home.path().join("home/memory/a.md"), "- with an editor\n").unwrap();
    let Event::Changed { by, .. } = next(&mut events).await else {
        panic!("the next event is the edit")
    };
    assert_eq!(by, Actor::Outside);

    lukasa.close().await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn changes_by_another_process_are_published() {
    let home = TestHome::new();
    let (here, there) = (home.open().await, home.open().await);
    person(&here).create("global/z.md", "- one\n").await.unwrap();
    let mut events = person(&here).events().await.unwrap();
    person(&there).create("global/a.md", "- one\n").await.unwrap();
    let Event::Changed { by, origin, .. } = next(&mut events).await else { panic!() };
    assert_eq!((by, origin.as_str()), (Actor::Person, "test"));
    here.close().await;
    there.close().await;
}

#[tokio::test]
async fn events_of_a_workspace_are_published_in_no_other() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let shop = lukasa.workspace(home.checkout("shop")).as_person("test");
    let mill = lukasa.workspace(home.checkout("mill")).as_person("test");
    let mut events = mill.events().await.unwrap();
    shop.create("workspace/a.md", "- one\n").await.unwrap();
    mill.create("workspace/b.md", "- two\n").await.unwrap();
    let Event::Changed { path, .. } = next(&mut events).await else { panic!() };
    assert_eq!(path.to_string(), "/memories/workspace/b.md");
    lukasa.close().await;
}

//! Events arrive, whoever changes memories.

use lukasa::{Actor, ChangeKind, Event, MemoryEvents};

use crate::{TestHome, person};

async fn next(events: &mut MemoryEvents) -> Event {
    events.next().await.expect("the home is open")
}

#[tokio::test]
async fn changes_pins_tasks_and_edits_with_other_programs_are_told() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    // A folder that is there is watched at once.
    memories.create("global/z.md", "- one\n").await.unwrap();
    let mut events = memories.events().await.unwrap();

    let made = memories.create("global/a.md", "- one\n").await.unwrap();
    let Event::Changed { path, change, kind, by, revision, .. } = next(&mut events).await else {
        panic!("a change is told first")
    };
    assert_eq!(
        (path.to_string().as_str(), kind, by),
        ("/memories/global/a.md", ChangeKind::Create, Actor::Person)
    );
    assert_eq!((Some(change), revision), (made.change, made.revision));

    memories.pin("global/a.md").await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Pinned { is_pinned: true, .. }));

    let report = memories.remember("I work at night").await.unwrap();
    let Event::TaskDone { task, .. } = next(&mut events).await else { panic!("a task is told") };
    assert_eq!(task, report.id);

    std::fs::write(home.path().join("home/memory/a.md"), "- with an editor\n").unwrap();
    let Event::Changed { by, .. } = next(&mut events).await else { panic!("an edit is told") };
    assert_eq!(by, Actor::Outside);

    lukasa.close().await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn what_another_process_changes_is_told() {
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
async fn what_happens_in_a_workspace_is_told_in_no_other() {
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

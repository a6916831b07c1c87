//! Access of callers to memories.

use lukasa::{Actor, AgentClass, Caller, ChangeKind, ErrorKind};

use crate::{TestHome, paths, person};

#[tokio::test]
async fn the_class_of_an_agent_limits_its_writes() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let workspace = lukasa.workspace(home.checkout("shop"));
    let may_write = async |class, path: &str| {
        let memories = workspace.as_agent(class, "test");
        match memories.create(path, "- x\n").await {
            Ok(_) => {
                memories.delete(path).await.unwrap();
                true
            }
            Err(error) => {
                assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "read_only"));
                false
            }
        }
    };
    for (class, global, project) in [
        (AgentClass::Exec, true, true),
        (AgentClass::Plan, true, false),
        (AgentClass::Explore, false, false),
    ] {
        assert_eq!(may_write(class, "global/a.md").await, global, "{class:?}");
        assert_eq!(may_write(class, "project/a.md").await, project, "{class:?}");
    }
    lukasa.close().await;
}

#[tokio::test]
async fn an_agent_that_may_not_write_everywhere_may_start_no_task() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    for class in [AgentClass::Plan, AgentClass::Explore] {
        let memories = lukasa.global().as_agent(class, "test");
        let error = memories.remember("I prefer tabs").await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, "read_only"));
    }
    let exec = lukasa.global().as_agent(AgentClass::Exec, "test");
    assert_eq!(exec.remember("I prefer tabs").await.unwrap().memories.len(), 1);
    lukasa.close().await;
}

#[tokio::test]
async fn only_a_person_pins_and_decides() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let (person, agent) = (person(&lukasa), lukasa.global().as_agent(AgentClass::Exec, "test"));
    person.create("global/a.md", "- x\n").await.unwrap();
    assert_eq!(agent.pin("global/a.md").await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(person.pin("global/a.md").await.unwrap());
    assert!(!person.pin("global/a.md").await.unwrap());
    assert!(person.list().await.unwrap().memories[0].is_pinned);
    assert!(person.unpin("global/a.md").await.unwrap());
    lukasa.close().await;
}

#[tokio::test]
async fn memories_of_a_workspace_are_invisible_in_others() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let shop = lukasa.workspace(home.checkout("shop")).as_person("test");
    let mill = lukasa.workspace(home.checkout("mill")).as_person("test");
    for path in ["global/g.md", "project/p.md", "workspace/w.md"] {
        shop.create(path, "- grind coffee at dawn\n").await.unwrap();
    }
    assert_eq!(paths(&shop).await.len(), 3);
    assert_eq!(paths(&mill).await, ["/memories/global/g.md"]);
    let found = mill.recall("when do I grind coffee?").await.unwrap();
    let found: Vec<_> = found.into_iter().map(|hit| hit.path.to_string()).collect();
    assert_eq!(found, ["/memories/global/g.md"]);
    let context = mill.context().await.unwrap().text;
    assert!(!context.contains("p.md") && !context.contains("w.md"), "{context}");
    let history = mill.history(9).await.unwrap();
    assert_eq!(history.len(), 1);
    assert!(mill.tasks().await.unwrap().is_empty());
    lukasa.close().await;
}

#[tokio::test]
async fn a_workspace_id_means_the_same_workspace_in_every_folder() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let named = |id: &str| lukasa.global().with_id(id).unwrap().as_person("test");
    named("user-7").create("workspace/a.md", "- x\n").await.unwrap();
    assert_eq!(paths(&named("user-7")).await, ["/memories/workspace/a.md"]);
    assert!(paths(&named("user-8")).await.is_empty());
    let elsewhere = lukasa.workspace(home.checkout("shop")).with_id("user-7").unwrap();
    assert_eq!(paths(&elsewhere.as_person("test")).await, ["/memories/workspace/a.md"]);
    lukasa.close().await;
}

#[tokio::test]
async fn a_read_only_workspace_refuses_all_writes() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    person(&lukasa).create("global/a.md", "- x\n").await.unwrap();
    let reader = lukasa.global().read_only().as_person("test");
    assert_eq!(reader.delete("global/a.md").await.unwrap_err().code(), "read_only");
    assert_eq!(reader.read("global/a.md").await.unwrap().text, "- x\n");
    lukasa.close().await;
}

#[tokio::test]
async fn a_folder_has_no_scopes() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = lukasa.folder(home.path().join("notes")).as_person("test");
    memories.create("a.md", "- x\n").await.unwrap();
    assert_eq!(paths(&memories).await, ["/memories/a.md"]);
    assert_eq!(std::fs::read_to_string(home.path().join("notes/a.md")).unwrap(), "- x\n");
    lukasa.close().await;
}

#[tokio::test]
async fn history_names_the_author_and_the_kind_of_each_change() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let caller = Caller::agent(AgentClass::Exec, "my-app").client("helper 2").session("talk-1");
    let agent = lukasa.global().as_caller(caller);
    agent.create("global/a.md", "- x\n").await.unwrap();
    let memories = person(&lukasa);
    memories.rename("global/a.md", "global/b.md").await.unwrap();
    std::fs::write(home.path().join("home/memory/b.md"), "- y, with an editor\n").unwrap();

    let history = memories.history(9).await.unwrap();
    let entries: Vec<_> =
        history.iter().map(|change| (change.kind, change.by, change.session.as_deref())).collect();
    assert_eq!(
        entries,
        [
            (ChangeKind::Outside, Actor::Outside, None),
            (ChangeKind::Rename, Actor::Person, None),
            (ChangeKind::Create, Actor::Agent, Some("talk-1")),
        ]
    );
    let changes = memories.history_of("global/b.md", 9).await.unwrap();
    assert!(changes.len() >= 2, "{changes:?}");
    lukasa.close().await;
}

#[tokio::test]
async fn models_see_the_context_files_of_a_project_once_it_is_trusted() {
    let home = TestHome::new();
    let checkout = home.checkout("shop");
    std::fs::write(checkout.join("AGENTS.md"), "Use pnpm.\n").unwrap();
    let lukasa = home.open().await;
    let workspace = lukasa.workspace(&checkout);
    let context = async || workspace.as_person("test").context().await.unwrap().text;
    assert!(!context().await.contains("Use pnpm."));
    workspace.trust().await.unwrap();
    assert!(context().await.contains("Use pnpm."));
    workspace.distrust().await.unwrap();
    assert!(!context().await.contains("Use pnpm."));
    assert_eq!(lukasa.global().trust().await.unwrap_err().kind(), ErrorKind::Invalid);
    lukasa.close().await;
}

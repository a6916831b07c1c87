//! What a caller sees and may do.

use lukasa::{Actor, AgentClass, Caller, ChangeKind, ErrorKind};

use crate::{TestHome, paths, person};

#[tokio::test]
async fn a_class_says_what_an_agent_may_write() {
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
async fn an_agent_that_may_not_write_everywhere_asks_for_no_tasks() {
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
async fn memories_of_a_workspace_are_seen_in_no_other() {
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
async fn a_workspace_of_an_id_is_one_wherever_it_is_opened() {
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
async fn nobody_writes_through_a_workspace_that_is_only_for_reading() {
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
async fn history_says_who_did_what() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let caller = Caller::agent(AgentClass::Exec, "my-app").client("helper 2").session("talk-1");
    let agent = lukasa.global().as_caller(caller);
    agent.create("global/a.md", "- x\n").await.unwrap();
    let memories = person(&lukasa);
    memories.rename("global/a.md", "global/b.md").await.unwrap();
    std::fs::write(home.path().join("home/memory/b.md"), "- y, with an editor\n").unwrap();

    let history = memories.history(9).await.unwrap();
    let told: Vec<_> =
        history.iter().map(|one| (one.kind, one.by, one.session.as_deref())).collect();
    assert_eq!(
        told,
        [
            (ChangeKind::Outside, Actor::Outside, None),
            (ChangeKind::Rename, Actor::Person, None),
            (ChangeKind::Create, Actor::Agent, Some("talk-1")),
        ]
    );
    let of_b = memories.history_of("global/b.md", 9).await.unwrap();
    assert!(of_b.len() >= 2, "{of_b:?}");
    lukasa.close().await;
}

#[tokio::test]
async fn a_project_instructs_models_once_it_is_trusted() {
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

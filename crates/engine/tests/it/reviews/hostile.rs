//! Reviews where something else happens at the same time, or where a model or a host does what it should not.

use engine::{Asker, ContextMode, Dry, RememberRequest, Request, UndoTarget};

use super::*;

impl World {
    /// Returns the conversations as another process sees them: it has none of them at hand.
    fn elsewhere(&self) -> Conversations {
        let workspaces = std::slice::from_ref(&self.workspace);
        self.engine.reviewed_conversations(self.engine.recaller(), &self.lanes, workspaces)
    }

    async fn done(&self, request: Request) -> Task {
        let task = self.lanes.submit(&self.workspace, request, Asker::person("cli")).await.unwrap();
        self.lanes.wait(&self.workspace, &task.id).await.unwrap().unwrap()
    }

    async fn kept(&self, id: &str) -> String {
        self.conversations.written().await;
        self.database().conversation(id).await.unwrap().unwrap().data
    }

    async fn undo(&self, task: &Task) {
        let target = UndoTarget::Task(task.id.to_string());
        self.memories().undo(&target, Dry::No, &Call::default()).await.unwrap();
    }
}

fn remember(content: &str) -> Request {
    let (content, context_mode) = (content.to_owned(), ContextMode::Workspace);
    Request::Remember(RememberRequest { content, context_mode, scope: None })
}

#[tokio::test]
async fn what_is_private_goes_to_no_project_by_an_update_either() {
    let private = "My doctor says that I have diabetes";
    let world = World::every(
        1,
        vec![
            Says::Calls(vec![add("memory", "The build needs make 4", &["m1"])]),
            nothing(),
            Says::call("update_memory", json!({ "id": "e1", "text": private, "evidence": ["m1"] })),
            nothing(),
        ],
    );
    let said = ["the build needs make 4", "the build needs insulin, says my doctor"];
    let reviews = world.turns("talk", &said).await;
    let text = world.text().await;
    assert!(text.contains("/memories/project/"), "{text}");
    assert!(!text.contains("diabetes"), "{text}");
    assert_eq!(left_out(&reviews[1]), [(LeftOut::Place, 1)]);
}

#[tokio::test]
async fn what_a_person_asks_to_be_remembered_outlives_a_review_that_said_the_same() {
    let world = World::every(
        1,
        vec![Says::Calls(vec![add("user", "I prefer tabs everywhere", &["m1"])]), nothing()],
    );
    let reviews = world.turns("talk", &["I prefer tabs everywhere"]).await;
    world.done(remember("I prefer tabs everywhere")).await;
    world.undo(&reviews[0]).await;
    let text = world.text().await;
    assert!(text.contains("I prefer tabs everywhere"), "{text}");
}

#[tokio::test]
async fn what_a_person_says_is_otherwise_does_not_wait_with_what_a_review_wrote() {
    let world = World::every(
        1,
        vec![Says::Calls(vec![add("user", "My editor is Helix", &["m1"])]), nothing()],
    );
    world.turns("talk", &["My editor is Helix"]).await;
    world.done(remember("My editor is Zed")).await;
    let memories = world.memories();
    let mut said = false;
    for listed in memories.list(None).await.unwrap().memories {
        let text = memories.read(&listed.path).await.unwrap().text;
        let waits = memories.unreviewed(&[(&listed.path, None)]).await;
        said |= text.contains("Zed") && waits.is_empty();
    }
    assert!(said, "{}", world.text().await);
}

#[tokio::test]
async fn a_dream_lets_no_entry_of_a_person_go_for_one_that_waits() {
    let world = World::every(
        1,
        vec![Says::Calls(vec![add("user", "I prefer tabs everywhere", &["m1"])]), nothing()],
    );
    world.turns("talk", &["I prefer tabs everywhere"]).await;
    let at = world.memories().list(None).await.unwrap().memories[0].path.clone();
    // Written with an editor, so that history knows nothing of it.
    let name = at.relative().unwrap().as_str().replace(".md", "-2.md");
    let by_hand = world.home.path().join("data/memory").join(name);
    std::fs::write(&by_hand, "- I prefer tabs everywhere\n- I like tea\n").unwrap();
    world.memories().set_pin(&at, true).await.unwrap();
    world.done(Request::Dream).await;
    let text = std::fs::read_to_string(&by_hand).unwrap();
    assert!(text.contains("I prefer tabs everywhere"), "{}", world.text().await);
    world.memories().set_pin(&at, false).await.unwrap();
    world.done(Request::Dream).await;
    let text = std::fs::read_to_string(&by_hand).unwrap();
    assert!(text.contains("I prefer tabs everywhere"), "{}", world.text().await);
}


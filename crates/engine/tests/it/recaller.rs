//! Following memories with a corpus.

use std::fs;
use std::sync::Arc;

use engine::{
    BindingRequest, Call, Caller, Engine, Memories, Recaller, Select as _, Selected, Selecting,
    Shown,
};
use memory::command::Command;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{config, create, path};

struct World {
    home: TempDir,
    engine: Engine,
    memories: Memories,
    recaller: Arc<Recaller>,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(config(home.path())).unwrap();
        let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
        let recaller = engine.recaller();
        Self { home, engine, memories, recaller }
    }

    async fn apply(&self, command: Command) {
        self.memories.apply(command, &Call::default()).await.unwrap();
    }

    async fn write(&self, name: &str, text: &str) {
        self.apply(create(&format!("/memories/global/{name}"), text)).await;
    }

    async fn recall(&self, prompt: &str) -> Vec<String> {
        paths(&self.recaller.recall(&self.memories, prompt).await.unwrap())
    }

    fn at_once(&self, prompt: &str) -> Option<Vec<String>> {
        let asked = Selecting {
            memories: self.memories.clone(),
            prompt: Arc::from(prompt),
            except: Shown::default(),
        };
        self.recaller.at_once(&asked).map(|found| paths(&found))
    }
}

fn paths(found: &[Selected]) -> Vec<String> {
    found.iter().map(|found| found.path.to_string()).collect()
}

async fn filled() -> World {
    let world = World::new();
    for (name, text) in [
        (
            "harbour.md",
            "- The harbour master of Brenn is called Olga.\n- Her office opens at nine.\n",
        ),
        ("bread.md", "---\nname: Rye bread\n---\n- The dough rests for eleven hours.\n"),
        ("tests.md", "- Integration tests need the variable TARN_URL.\n"),
    ] {
        world.write(name, text).await;
    }
    world
}

#[tokio::test]
async fn what_fits_is_found_and_told_why() {
    let world = filled().await;
    assert_eq!(world.recall("who is the harbour master?").await, ["/memories/global/harbour.md"]);
    let found = world
        .recaller
        .recall(&world.memories, "how long does the dough of rye bread rest?")
        .await
        .unwrap();
    let [bread] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(bread.title, "Rye bread");
    assert_eq!(bread.text, "- The dough rests for eleven hours.");
    assert!(bread.why.contains("`dough`"), "{}", bread.why);
    assert_eq!(world.recall("what do penguins eat in winter?").await, [] as [&str; 0]);
}

#[tokio::test]
async fn changes_by_whomever_are_followed() {
    let world = filled().await;
    assert_eq!(world.recall("harbour master").await, ["/memories/global/harbour.md"]);
    let from = path("/memories/global/harbour.md");
    let to = path("/memories/global/port.md");
    world.apply(Command::Rename { old_path: from, new_path: to.clone() }).await;
    assert_eq!(world.recall("harbour master").await, ["/memories/global/port.md"]);
    let edited = world.home.path().join("data/memory/tests.md");
    fs::write(&edited, "- Integration tests need the variable BROOK_KEY.\n").unwrap();
    assert_eq!(world.recall("variable BROOK_KEY").await, ["/memories/global/tests.md"]);
    assert_eq!(world.recall("variable TARN_URL").await, [] as [&str; 0]);
    world.apply(Command::Delete { path: to }).await;
    assert_eq!(world.recall("harbour master").await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_secret_that_came_from_outside_is_never_found() {
    let world = filled().await;
    let secret = format!("- The key of the ferry is sk-ant-api03-{}.\n", "Ab3".repeat(31));
    fs::write(world.home.path().join("data/memory/ferry.md"), secret).unwrap();
    assert_eq!(world.recall("what is the key of the ferry?").await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_prompt_is_answered_at_once_while_nobody_tells_of_a_change() {
    let world = filled().await;
    let notices = world.engine.subscribe();
    let following = Arc::clone(&world.recaller);
    let following = tokio::spawn(async move { following.follow(notices).await });
    assert_eq!(world.at_once("harbour master"), None, "nobody has looked yet");
    world.recaller.prepare(&world.memories).await.unwrap();
    let harbour = || Some(vec!["/memories/global/harbour.md".to_owned()]);
    assert_eq!(world.at_once("harbour master"), harbour());
    world.write("ships.md", "- The ferry is called Tern.\n").await;
    // The change is told; what hears of it is another task.
    while world.at_once("harbour master").is_some() {
        tokio::task::yield_now().await;
    }
    world.recaller.prepare(&world.memories).await.unwrap();
    assert_eq!(world.at_once("harbour master"), harbour());
    following.abort();
}

#[tokio::test]
async fn a_conversation_is_shown_what_fits_its_first_prompt() {
    let world = filled().await;
    world.recaller.prepare(&world.memories).await.unwrap();
    let conversations = world.engine.conversations(Arc::clone(&world.recaller) as _);
    let id = "c".parse().unwrap();
    let opened = conversations.open(&id, "here", &world.memories).await.unwrap();
    let conversation = opened.conversation;
    let never = CancellationToken::new();
    let shown = conversation.prompt("who is the harbour master?", None, &never).unwrap();
    assert!(shown.block.contains("is called Olga."), "{}", shown.block);
    assert_eq!(conversation.prompt("who is the harbour master?", None, &never), None);
}

#[tokio::test]
async fn callers_that_see_other_roots_find_nothing_of_each_other() {
    let world = filled().await;
    let project = tempfile::tempdir().unwrap();
    fs::create_dir(project.path().join(".git")).unwrap();
    let folder = project.path().to_owned();
    let request = BindingRequest { project_dir: Some(folder), ..BindingRequest::default() };
    let inside = world.engine.memories(&request, Caller::person("test"));
    let text = "- The launch code word of the project is Heron.\n".to_owned();
    let command = Command::Create { path: path("/memories/project/launch.md"), file_text: text };
    inside.apply(command, &Call::default()).await.unwrap();
    let asked = "what is the launch code word?";
    let found = world.recaller.recall(&inside, asked).await.unwrap();
    assert_eq!(paths(&found), ["/memories/project/launch.md"]);
    assert_eq!(world.recall(asked).await, [] as [&str; 0]);
}

//! Tests of recall with a corpus that follows the memories.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lukasa_engine::{
    BindingRequest, CallContext, Caller, Engine, LaneSettings, Memories, RecallQuery,
    RecallService, ResidentEntries, RetrievedMemory, Retriever as _, Workspace,
};
use memory::access::AgentClass;
use memory::command::{MemoryCommand, ViewRange};
use memory::screen::Policy;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{config, create, path};

struct RecallFixture {
    home: TempDir,
    engine: Engine,
    memories: Memories,
    recaller: Arc<RecallService>,
}

impl RecallFixture {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(config(home.path())).unwrap();
        let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
        let recaller = engine.recaller();
        Self { home, engine, memories, recaller }
    }

    async fn apply(&self, command: MemoryCommand) {
        self.memories.apply(command, &CallContext::default()).await.unwrap();
    }

    async fn write(&self, name: &str, text: &str) {
        self.apply(create(&format!("/memories/global/{name}"), text)).await;
    }

    async fn recall(&self, prompt: &str) -> Vec<String> {
        paths(&self.recaller.recall(&self.memories, prompt).await.unwrap())
    }

    fn try_retrieve(&self, prompt: &str) -> Option<Vec<String>> {
        let query = RecallQuery {
            workspace: Arc::from("here"),
            memories: self.memories.clone(),
            prompt: Arc::from(prompt),
            except: ResidentEntries::default(),
        };
        self.recaller.try_retrieve(&query).map(|found| paths(&found))
    }
}

/// Returns the paths of memories, each followed by those of memories that say the same.
fn paths(found: &[RetrievedMemory]) -> Vec<String> {
    let of_memory = |found: &RetrievedMemory| {
        let others = found.also_in.iter().map(|other| other.path.to_string());
        std::iter::once(found.path.to_string()).chain(others).collect::<Vec<_>>()
    };
    found.iter().flat_map(of_memory).collect()
}

async fn filled() -> RecallFixture {
    let world = RecallFixture::new();
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
async fn fitting_memories_are_found_with_reasons() {
    let world = filled().await;
    assert_eq!(world.recall("who is the harbour master?").await, ["/memories/global/harbour.md"]);
    let found = world
        .recaller
        .recall(&world.memories, "how long does the dough of rye bread rest?")
        .await
        .unwrap();
    let [bread] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(bread.title, "Rye bread");
    assert_eq!(bread.excerpt().text, "- The dough rests for eleven hours.");
    assert!(bread.why.contains("`dough`"), "{}", bread.why);
    assert_eq!(world.recall("what do penguins eat in winter?").await, [] as [&str; 0]);
}

#[tokio::test]
async fn memories_outside_of_a_folder_take_no_place_in_its_recall() {
    let world = filled().await;
    let piers = ["north", "south", "east", "west", "old", "new", "long"];
    for pier in piers {
        let text = format!("- The ferry to Skarholm leaves from the {pier} pier.\n");
        world.write(&format!("{pier}.md"), &text).await;
    }
    let text = "- In winter the crossing to Skarholm takes two hours.\n";
    world.write("notes/winter.md", text).await;
    let prompt = "which pier does the ferry to Skarholm leave from?";
    let anywhere = world.recall(prompt).await;
    assert!(!anywhere.contains(&"/memories/global/notes/winter.md".to_owned()), "{anywhere:?}");
    let folder = path("/memories/global/notes");
    let found = world.recaller.recall_under(&world.memories, prompt, Some(&folder)).await.unwrap();
    assert_eq!(paths(&found), ["/memories/global/notes/winter.md"]);
}

#[tokio::test]
async fn changes_by_any_writer_are_followed() {
    let world = filled().await;
    assert_eq!(world.recall("harbour master").await, ["/memories/global/harbour.md"]);
    let from = path("/memories/global/harbour.md");
    let to = path("/memories/global/port.md");
    world.apply(MemoryCommand::Rename { old_path: from, new_path: to.clone() }).await;
    assert_eq!(world.recall("harbour master").await, ["/memories/global/port.md"]);
    let edited = world.home.path().join("data/memory/tests.md");
    fs::write(&edited, "- Integration tests need the variable BROOK_KEY.\n").unwrap();
    assert_eq!(world.recall("variable BROOK_KEY").await, ["/memories/global/tests.md"]);
    assert_eq!(world.recall("variable TARN_URL").await, [] as [&str; 0]);
    world.apply(MemoryCommand::Delete { path: to }).await;
    assert_eq!(world.recall("harbour master").await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_change_by_another_program_is_found_by_the_next_recall_without_a_wait() {
    let world = filled().await;
    let folder = world.home.path().join("data/memory");
    // From the second scan on, the files are observed.
    for round in 0..60 {
        let text = format!("- The ferry to Skarholm leaves from pier {round}.\n");
        let name = format!("ferry-{}.md", round % 3);
        fs::write(folder.join(&name), &text).unwrap();
        let query = "which pier does the ferry to Skarholm leave from?";
        let found = world.recaller.recall(&world.memories, query).await.unwrap();
        let texts: Vec<_> = found.iter().map(|found| found.excerpt().text).collect();
        assert!(texts.contains(&text.trim().to_owned()), "round {round}: {texts:?}");
        if round % 3 == 2 {
            fs::remove_file(folder.join(&name)).unwrap();
            let left = world.recall(query).await;
            assert!(!left.contains(&format!("/memories/global/{name}")), "{left:?}");
        }
    }
}

#[tokio::test]
async fn an_acceptance_by_another_process_gives_another_version() {
    let world = filled().await;
    fs::write(world.home.path().join("data/memory/new.md"), "- The slipway is closed.\n").unwrap();
    world.recall("is the slipway closed?").await;
    let version = world.memories.version().await;
    assert!(version.is_some());
    assert_eq!(world.memories.version().await, version, "nothing changed");
    // No file changes, so only the count of writes tells.
    let other = Engine::open(config(world.home.path())).unwrap();
    let others = other.memories(&BindingRequest::default(), Caller::person("other"));
    let accepted = path("/memories/global/new.md");
    let revision = others.read(&accepted).await.unwrap().revision;
    let change = others.accept(&accepted, revision, &CallContext::default()).await.unwrap();
    assert!(change.is_some());
    assert_ne!(world.memories.version().await, version);
}

#[tokio::test]
async fn a_secret_from_an_external_edit_is_never_found() {
    let world = filled().await;
    let secret = format!("- The key of the ferry is sk-ant-api03-{}.\n", "Ab3".repeat(31));
    fs::write(world.home.path().join("data/memory/ferry.md"), secret).unwrap();
    let found = world.recall("what is the key of the ferry?").await;
    assert!(!found.iter().any(|path| path.contains("ferry")), "{found:?}");
}

#[tokio::test]
async fn a_prompt_is_answered_at_once_while_no_change_is_announced() {
    let world = filled().await;
    let notices = world.engine.subscribe();
    let following = Arc::clone(&world.recaller);
    let following = tokio::spawn(async move { following.follow(notices).await });
    assert_eq!(world.try_retrieve("harbour master"), None, "there is no corpus yet");
    world.recaller.prepare(&world.memories).await.unwrap();
    let harbour = || Some(vec!["/memories/global/harbour.md".to_owned()]);
    assert_eq!(world.try_retrieve("harbour master"), harbour());
    world.write("ships.md", "- The ferry is called Tern.\n").await;
    // The change is published, but another tokio task receives it.
    while world.try_retrieve("harbour master").is_some() {
        tokio::task::yield_now().await;
    }
    world.recaller.prepare(&world.memories).await.unwrap();
    assert_eq!(world.try_retrieve("harbour master"), harbour());
    following.abort();
}

#[tokio::test]
async fn a_conversation_is_shown_memories_for_its_first_prompt() {
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
async fn callers_with_different_roots_have_separate_corpora() {
    let world = filled().await;
    let project = tempfile::tempdir().unwrap();
    fs::create_dir(project.path().join(".git")).unwrap();
    let folder = project.path().to_owned();
    let request = BindingRequest { project: Some(folder.into()), ..BindingRequest::default() };
    let inside = world.engine.memories(&request, Caller::person("test"));
    let text = "- The launch code word of the project is Heron.\n".to_owned();
    let command =
        MemoryCommand::Create { path: path("/memories/project/launch.md"), file_text: text };
    inside.apply(command, &CallContext::default()).await.unwrap();
    let prompt = "what is the launch code word?";
    let found = world.recaller.recall(&inside, prompt).await.unwrap();
    assert_eq!(paths(&found), ["/memories/project/launch.md"]);
    assert_eq!(world.recall(prompt).await, [] as [&str; 0]);
}

impl RecallFixture {
    /// Returns the fixture as another process opens it.
    fn reopen(self) -> Self {
        let engine = Engine::open(config(self.home.path())).unwrap();
        let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
        let recaller = engine.recaller();
        Self { home: self.home, engine, memories, recaller }
    }

    /// Makes files old enough to be recognized by their stamps.
    fn age_files(&self) {
        for entry in fs::read_dir(self.home.path().join("data/memory")).unwrap() {
            let file = fs::File::options().append(true).open(entry.unwrap().path()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
        }
    }

    /// Returns the files of corpora.
    fn corpus_files(&self) -> Vec<PathBuf> {
        let folder = self.home.path().join("state/corpora");
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

#[tokio::test]
async fn a_cached_corpus_is_updated_by_the_next_process() {
    let world = filled().await;
    world.age_files();
    assert_eq!(world.recall("harbour master").await, ["/memories/global/harbour.md"]);
    assert_eq!(world.corpus_files(), [] as [PathBuf; 0], "it is written in the background");
    world.engine.close().await;
    let [file] = world.corpus_files().try_into().unwrap();
    let before = fs::read(&file).unwrap();

    let world = world.reopen();
    let data = world.home.path().join("data/memory");
    fs::write(data.join("tests.md"), "- Integration tests need the variable BROOK_KEY.\n").unwrap();
    fs::remove_file(data.join("bread.md")).unwrap();
    let found = world.recaller.recall(&world.memories, "harbour master").await.unwrap();
    assert_eq!(paths(&found), ["/memories/global/harbour.md"]);
    assert!(found[0].excerpt().text.contains("is called Olga."), "{:?}", found[0]);
    assert_eq!(world.recall("variable BROOK_KEY").await, ["/memories/global/tests.md"]);
    assert_eq!(world.recall("variable TARN_URL").await, [] as [&str; 0]);
    assert_eq!(world.recall("how long does the dough rest").await, [] as [&str; 0]);
    world.engine.close().await;
    assert_ne!(fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn an_unchanged_corpus_is_not_written_again() {
    let world = filled().await;
    world.age_files();
    world.recall("harbour master").await;
    world.engine.close().await;
    let memory = world.home.path().join("data/memory/harbour.md");
    let [file] = world.corpus_files().try_into().unwrap();
    let world = world.reopen();
    let bytes = fs::read(&file).unwrap();
    assert_eq!(world.recall("harbour master").await, ["/memories/global/harbour.md"]);
    world.engine.close().await;
    assert_eq!(fs::read(&file).unwrap(), bytes, "nothing changed");
    fs::remove_file(&memory).unwrap();
    assert_eq!(world.reopen().recall("harbour master").await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_corpus_that_is_damaged_or_of_other_rules_is_rebuilt() {
    let mut world = filled().await;
    world.age_files();
    let harbour = ["/memories/global/harbour.md"];
    assert_eq!(world.recall("harbour master").await, harbour);
    world.engine.close().await;
    let [file] = world.corpus_files().try_into().unwrap();
    let whole = fs::read(&file).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    let mut other = whole.clone();
    *other.last_mut().unwrap() ^= 1;
    for bytes in [Vec::new(), b"no corpus".to_vec(), half, other] {
        fs::write(&file, bytes).unwrap();
        world = world.reopen();
        assert_eq!(world.recall("harbour master").await, harbour);
        world.engine.close().await;
        assert_eq!(fs::read(&file).unwrap(), whole, "it is as it was");
    }
    let mut settings = config(world.home.path());
    settings.screening.insert("secrets".to_owned(), Policy::Off);
    let engine = Engine::open(settings).unwrap();
    let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
    engine.recaller().recall(&memories, "harbour master").await.unwrap();
    engine.close().await;
    assert_ne!(fs::read(&file).unwrap(), whole);
}

#[tokio::test]
async fn corpus_files_have_no_texts_and_are_separate_per_project() {
    let world = filled().await;
    let token = format!("sk-ant-api03-{}", "Ab3".repeat(31));
    let secret = format!("- The key of the ferry is {token}.\n");
    fs::write(world.home.path().join("data/memory/ferry.md"), secret).unwrap();
    let mut projects = Vec::new();
    for word in ["heron", "plover"] {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir(project.path().join(".git")).unwrap();
        let folder = Some(project.path().to_owned());
        let request =
            BindingRequest { project: folder.map(Into::into), ..BindingRequest::default() };
        let inside = world.engine.memories(&request, Caller::person("test"));
        let file_text = format!("- The launch code word of the project is {word}.\n");
        let command =
            MemoryCommand::Create { path: path("/memories/project/launch.md"), file_text };
        inside.apply(command, &CallContext::default()).await.unwrap();
        let found = world.recaller.recall(&inside, "what is the launch code word?").await.unwrap();
        assert_eq!(found.len(), 1, "{word}");
        projects.push(project);
    }
    world.engine.close().await;
    let files: Vec<String> = world
        .corpus_files()
        .iter()
        .map(|file| String::from_utf8_lossy(&fs::read(file).unwrap()).into())
        .collect();
    let having = |word: &str| files.iter().filter(|text| text.contains(word)).count();
    assert_eq!((files.len(), having("launch")), (2, 2));
    assert_eq!((having("heron"), having("plover")), (1, 1));
    assert_eq!(having("is called Olga"), 0);
    assert_eq!(having(&token) + having("sk-ant") + having("ab3ab3"), 0);
}

#[tokio::test]
async fn a_text_is_read_when_first_shown_and_then_cached() {
    let world = filled().await;
    world.age_files();
    world.recall("harbour master").await;
    world.engine.close().await;
    let harbour = || Some(vec!["/memories/global/harbour.md".to_owned()]);

    let world = world.reopen();
    assert_eq!(Some(world.recall("who is the harbour master?").await), harbour());
    assert_eq!(world.try_retrieve("who is the harbour master?"), harbour());
    assert_eq!(world.try_retrieve("dough of rye bread"), None, "its text was not read yet");
    world.recaller.prepare(&world.memories).await.unwrap();
    assert!(world.try_retrieve("dough of rye bread").is_some());
}

#[tokio::test]
async fn recall_works_without_a_writable_cache() {
    let world = filled().await;
    fs::write(world.home.path().join("state/corpora"), "in the way").unwrap();
    assert_eq!(world.recall("harbour master").await, ["/memories/global/harbour.md"]);
    world.engine.close().await;
    assert_eq!(world.reopen().recall("harbour master").await, ["/memories/global/harbour.md"]);
}

#[tokio::test]
async fn a_serving_process_prepares_its_corpus_and_writes_it_after_changes() {
    let world = filled().await;
    let workspace = Workspace::new(world.home.path().to_owned(), BindingRequest::default());
    let serving = world.engine.serve(&[workspace], LaneSettings::default()).await.unwrap();
    while world.try_retrieve("harbour master").is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.corpus_files(), [] as [PathBuf; 0], "changes come in heaps");
    tokio::time::pause();
    while world.corpus_files().is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    drop(serving);
}

#[tokio::test]
async fn ties_are_ordered_by_day_of_writing_and_usage() {
    let world = RecallFixture::new();
    let text = "The pier gate opens at six.\n";
    let names = ["gate-a.md", "gate-b.md", "gate-c.md"];
    for name in names {
        world.write(name, text).await;
    }
    let folder = world.home.path().join("data/memory");
    let written = |name: &str, days: u64| {
        let file = fs::File::options().write(true).open(folder.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(24 * days)).unwrap();
    };
    let order = async |expected: [&str; 3]| {
        let expected = expected.map(|name| format!("/memories/global/{name}"));
        assert_eq!(world.recall("When does the pier gate open?").await, expected);
    };
    for (name, days) in [("gate-a.md", 9), ("gate-c.md", 5), ("gate-b.md", 7)] {
        written(name, days);
    }
    order(["gate-c.md", "gate-b.md", "gate-a.md"]).await;
    let at = SystemTime::now() - Duration::from_hours(1);
    for name in names {
        fs::File::options().write(true).open(folder.join(name)).unwrap().set_modified(at).unwrap();
    }
    order(["gate-a.md", "gate-b.md", "gate-c.md"]).await;
    // A read by a person does not count as a use; one by an agent does.
    let agent = Caller::agent(AgentClass::Exec, "test");
    let agent = world.engine.memories(&BindingRequest::default(), agent);
    let view =
        MemoryCommand::View { path: path("/memories/global/gate-c.md"), lines: ViewRange::Whole };
    agent.apply(view, &CallContext::default()).await.unwrap();
    world.engine.close().await;
    order(["gate-c.md", "gate-a.md", "gate-b.md"]).await;
}

//! Tests of which memories are shown and how: thresholds, what was shown before, excerpts, dates,
//! equal facts.

use std::fs;
use std::time::{Duration, SystemTime};

use lukasa_engine::{
    BindingRequest, CallContext, Caller, Engine, Memories, RecallBlock, RetrievedMemory, Workspace,
};
use memory::clock::Timestamp;
use memory::command::MemoryCommand;
use memory::limits::RECALLED_UNREQUESTED_MAX;
use proptest::prelude::*;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{config, create, path};

/// A home with memories in the global scope and a checkout.
struct Home {
    folder: TempDir,
    checkout: TempDir,
    engine: Engine,
    memories: Memories,
}

impl Home {
    fn new() -> Self {
        let (home, checkout) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(checkout.path().join(".git")).unwrap();
        let engine = Engine::open(config(home.path())).unwrap();
        let folder = Some(checkout.path().to_owned());
        let request =
            BindingRequest { project: folder.map(Into::into), ..BindingRequest::default() };
        let memories = engine.memories(&request, Caller::person("test"));
        Self { folder: home, checkout, engine, memories }
    }

    async fn write(&self, name: &str, text: &str) {
        let command = create(&format!("/memories/{name}"), text);
        self.memories.apply(command, &CallContext::default()).await.unwrap();
    }

    /// Returns a home with these memories, by name and text.
    async fn with(memories: &[(&str, &str)]) -> Self {
        let home = Self::new();
        for (name, text) in memories {
            home.write(name, text).await;
        }
        home
    }

    /// Returns the memories that answer an explicit question.
    async fn recall(&self, question: &str) -> Vec<RetrievedMemory> {
        self.engine.recaller().recall(&self.memories, question).await.unwrap()
    }

    /// Returns the block for an explicit question.
    async fn block(&self, question: &str) -> String {
        let recalled = self.engine.recall(&self.memories, question).await.unwrap();
        recalled.map(|recalled| recalled.block).unwrap_or_default()
    }

    /// Returns what a new session is shown beside its prompts.
    async fn session(&self, prompts: &[&str]) -> Vec<Option<RecallBlock>> {
        let recaller = self.engine.recaller();
        recaller.prepare(&self.memories).await.unwrap();
        let conversations = self.engine.conversations(recaller);
        let id = "talk-1".parse().unwrap();
        let opened = conversations.open(&id, "here", &self.memories).await.unwrap();
        let turn = CancellationToken::new();
        prompts.iter().map(|prompt| opened.conversation.prompt(prompt, None, &turn)).collect()
    }
}

fn names(found: &[RetrievedMemory]) -> Vec<String> {
    found.iter().map(|found| found.path.to_string().replace("/memories/", "")).collect()
}

fn names_in(recalled: Option<&RecallBlock>) -> Vec<String> {
    recalled.map(|recalled| names(&recalled.memories)).unwrap_or_default()
}

const NOTES: [(&str, &str); 4] = [
    ("global/style.md", "- I prefer tabs over spaces\n"),
    ("global/deploy.md", "- Deploy with `just ship`, never on Fridays\n"),
    ("global/db.md", "- The tests need PostgreSQL 16 on port 5433\n"),
    ("global/me.md", "- My name is Ada and I live in Lisbon\n"),
];

#[tokio::test]
async fn a_question_gets_weak_memories_and_a_prompt_does_not() {
    let home = Home::with(&NOTES).await;
    let question = "how should I indent?";
    let found = home.recall(question).await;
    assert_eq!(names(&found), ["global/style.md"]);
    assert!(found[0].is_weak && found[0].score < 0.5, "{found:?}");
    let block = home.block(question).await;
    assert!(block.contains("No memory clearly answers this question."), "{block}");
    assert!(block.contains(&format!(" score=\"{:.2}\" weak=\"true\"", found[0].score)), "{block}");
    assert_eq!(home.session(&[question]).await, [None]);

    let found = home.recall("when may I deploy?").await;
    assert!(!found[0].is_weak && found[0].score >= 0.5, "{found:?}");
    for unrelated in ["What is a monad?", "write a haiku about autumn"] {
        assert_eq!(home.recall(unrelated).await, [], "{unrelated}");
        assert_eq!(home.block(unrelated).await, "", "{unrelated}");
    }
}

/// Memories that all fit a prompt about the ferry.
fn ferries(count: usize) -> Vec<(String, String)> {
    let ferry = |n| {
        let text = format!("- The ferry to pier {n} is called Tern number {n}.\n");
        (format!("global/ferry-{n}.md"), text)
    };
    (0..count).map(ferry).collect()
}

#[tokio::test]
async fn beside_a_prompt_at_most_three_memories_are_shown_and_five_for_a_question() {
    let ferries = ferries(9);
    let ferries: Vec<(&str, &str)> = ferries.iter().map(|(n, t)| (&**n, &**t)).collect();
    let home = Home::with(&ferries).await;
    let prompt = "what is the ferry called?";
    assert_eq!(home.recall(prompt).await.len(), 5);
    let shown = home.session(&[prompt]).await;
    assert_eq!(names_in(shown[0].as_ref()).len(), RECALLED_UNREQUESTED_MAX);
}

#[tokio::test]
async fn an_entry_is_shown_once_and_the_others_that_fit_still_are() {
    let ferries = ferries(5);
    let ferries: Vec<(&str, &str)> = ferries.iter().map(|(n, t)| (&**n, &**t)).collect();
    let home = Home::with(&ferries).await;
    let shown = home
        .session(&[
            "what is the ferry to pier 3 called?",
            "so what is the ferry to pier 3 called?",
            "what is the ferry to pier 4 called?",
        ])
        .await;
    assert_eq!(names_in(shown[0].as_ref())[0], "global/ferry-3.md");
    let all: Vec<_> = shown.iter().flat_map(|shown| names_in(shown.as_ref())).collect();
    let mut once = all.clone();
    once.sort();
    once.dedup();
    assert_eq!(all.len(), once.len(), "{all:?}");
    assert!(all.contains(&"global/ferry-4.md".to_owned()), "{all:?}");
}

#[tokio::test]
async fn of_a_file_only_the_new_entry_is_shown_again() {
    let home = Home::with(&[("global/boats.md", "- The ferry to Brenn is called Tern.\n")]).await;
    let conversations = home.engine.conversations(home.engine.recaller());
    let opened = conversations.open(&"talk-3".parse().unwrap(), "here", &home.memories).await;
    let conversation = opened.unwrap().conversation;
    let mut shown = Vec::new();
    for text in ["- The ferry to Brenn is called Tern.\n", "- The ferry to Olen is called Auk.\n"] {
        home.memories
            .apply(
                MemoryCommand::Insert {
                    path: path("/memories/global/boats.md"),
                    insert_line: 0,
                    insert_text: text.to_owned(),
                },
                &CallContext::default(),
            )
            .await
            .unwrap();
        let question = text.trim_start_matches("- ");
        shown.push(conversation.prompt_and_wait(question).await.unwrap());
        conversation.turn_ended(None);
    }
    let block = shown.remove(1).unwrap().block;
    assert!(block.contains("- The ferry to Olen is called Auk.\n"), "{block}");
    assert!(!block.contains("Tern"), "{block}");
}

#[tokio::test]
async fn what_a_conversation_began_with_is_not_recalled() {
    let home = Home::with(&[
        ("global/ferry.md", "- The ferry to Brenn is called Tern.\n"),
        ("global/boats.md", "- The old ferry to Brenn was called Skua.\n- It sank.\n"),
    ])
    .await;
    let prompt = "what is the ferry to Brenn called?";
    assert!(home.session(&[prompt]).await[0].is_some());
    let conversations = home.engine.conversations(home.engine.recaller());
    let opened = conversations.open(&"talk-2".parse().unwrap(), "here", &home.memories).await;
    let conversation = opened.unwrap().conversation;
    let workspace = Workspace::new(home.checkout.path().to_owned(), BindingRequest::default());
    let files = home.engine.context_files(&workspace, Caller::person("test"));
    conversation.context(&files).await.unwrap();
    assert_eq!(conversation.prompt(prompt, None, &CancellationToken::new()), None);
    let segment = home.engine.segment_within(&home.memories, &files, usize::MAX).await.unwrap();
    let recalled =
        home.engine.recall_beside_prompt(&home.memories, prompt, &segment).await.unwrap();
    assert_eq!(recalled, None);
}

/// Returns a text of many bullets about other things, with one bullet in their middle.
fn long_memory(bullet: &str) -> String {
    let filler = "- The locker holds lamps and rope for the pier.\n".repeat(40);
    format!("# Harbour\n\n{filler}\n## Staff\n\n{bullet}\n{filler}")
}

#[tokio::test]
async fn of_a_long_memory_the_entry_that_matched_is_shown_with_its_heading() {
    let bullet = "- The harbour master of Brenn is called Olga Tveit.";
    let home = Home::with(&[("global/harbour.md", &long_memory(bullet)), NOTES[0]]).await;
    let block = home.block("who is the harbour master of Brenn?").await;
    assert!(block.contains(" truncated=\"true\">\n"), "{block}");
    assert!(block.contains(&format!("## Staff\n{bullet}\n")), "{block}");
}

/// Returns the date under which a memory is shown.
async fn saved_at(home: &Home, question: &str) -> Option<Timestamp> {
    let found = home.recall(question).await;
    assert!(!found.is_empty(), "{question}");
    found[0].saved_at
}

#[tokio::test]
async fn a_memory_has_the_date_of_its_text_and_not_of_its_checkout() {
    let home = Home::with(&[
        ("global/dated.md", "---\ndate: 2020-05-04\n---\n- The kiln reaches 1200 degrees.\n"),
        ("global/planned.md", "---\ndate: 2999-01-01\n---\n- The lighthouse opens for visitors.\n"),
        ("project/own.md", "- The ferry is called Tern.\n"),
    ])
    .await;
    let memory = home.checkout.path().join(".lukasa/memory");
    fs::write(memory.join("cloned.md"), "- The crane lifts nine tons.\n").unwrap();
    home.engine.trusted_folders().add(home.checkout.path()).await.unwrap();
    let day = |text: &str| Some(text.parse::<Timestamp>().unwrap());
    assert_eq!(saved_at(&home, "how hot is the kiln?").await, day("2020-05-04T00:00:00Z"));
    let now = Timestamp::try_from(SystemTime::now()).unwrap();
    let is_recent = |at: Option<Timestamp>| {
        at.is_some_and(|at| now.duration_since(at).unsigned_abs() < Duration::from_hours(1))
    };
    assert!(is_recent(saved_at(&home, "when does the lighthouse open?").await), "not in 2999");
    assert!(is_recent(saved_at(&home, "what is the ferry called?").await), "history has it");
    assert_eq!(saved_at(&home, "how much does the crane lift?").await, None);
    // The file was copied since, and history has the time of the write.
    let file = fs::File::options().write(true).open(memory.join("own.md")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(24 * 90)).unwrap();
    assert!(is_recent(saved_at(&home, "what is the ferry called?").await));
}

#[tokio::test]
async fn equal_facts_of_several_memories_are_shown_once_with_all_paths() {
    let home = Home::with(&[
        ("global/a.md", "- The harbour master is called Olga.\n"),
        ("global/b.md", "* the  harbour master\n  is called OLGA.\n"),
        (
            "global/c.md",
            "1. The harbour master is called Olga.\n2. The harbour master sleeps at noon.\n",
        ),
    ])
    .await;
    let recalled = home.engine.recall(&home.memories, "how is the harbour master called?").await;
    let recalled = recalled.unwrap().unwrap();
    let all: Vec<String> = recalled
        .memories
        .iter()
        .flat_map(|memory| {
            let others = memory.also_in.iter().map(|other| other.path.to_string());
            std::iter::once(memory.path.to_string()).chain(others).collect::<Vec<_>>()
        })
        .collect();
    for name in ["a", "b", "c"] {
        let path = format!("/memories/global/{name}.md");
        assert!(all.contains(&path), "{all:?}");
        assert!(recalled.block.contains(&path), "{}", recalled.block);
    }
    let block =
        recalled.block.to_lowercase().replace("master\n  is", "master is").replace("  ", " ");
    assert_eq!(block.matches("harbour master is called olga").count(), 1, "{block}");
}

#[tokio::test]
async fn a_memory_with_invalid_frontmatter_keeps_its_title() {
    let home = Home::with(&[NOTES[0]]).await;
    let text = "---\nname: Harbour staff\ntags: [a\n---\n- The harbour master is called Olga.\n";
    fs::write(home.folder.path().join("data/memory/h.md"), text).unwrap();
    let found = home.recall("how is the harbour master called?").await;
    assert_eq!(found[0].title, "Harbour staff");
    assert!(!found[0].excerpt().text.contains("tags"), "{found:?}");
}

/// A word of random letters, so that it is rare.
fn word() -> impl Strategy<Value = String> {
    "[b-df-hj-np-tv-z][aeiou][b-df-hj-np-tv-z][aeiou][b-df-hj-np-tv-z]{1,2}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_sentence_that_matched_is_always_shown(
        sentences in prop::collection::vec(prop::collection::vec(word(), 3..20), 1..60),
        bullets in prop::collection::vec(any::<bool>(), 60),
        chosen in any::<prop::sample::Index>(),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut text = String::new();
            for (sentence, is_bullet) in sentences.iter().zip(&bullets) {
                text.push_str(if *is_bullet { "\n- " } else { " " });
                text.push_str(&sentence.join(" "));
                text.push('.');
            }
            let home = Home::with(&[("global/random.md", &text), NOTES[0]]).await;
            let question = chosen.get(&sentences).join(" ");
            let block = home.block(&question).await;
            prop_assert!(block.contains(&question), "{question:?} in {block}");
            Ok(())
        })?;
    }
}

//! Tests of conversations: memories are shown once, at the first call after recall is ready, and no
//! call waits for it.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use context::excerpt::MatchedText;
use lukasa_engine::{
    BindingRequest, Caller, Conversation, Conversations, Engine, Memories, RecallBlock,
    RecallQuery, RetrievedMemory, Retriever,
};
use memory::clock::Timestamp;
use memory::document::Revision;
use proptest::prelude::*;
use state::{SqliteState, TaskStore};
use tempfile::TempDir;
use testkit::ManualClock;
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use crate::{config, path};

/// The scripted result of a recall.
#[derive(Clone, Debug)]
enum ScriptedAnswer {
    Immediate(Vec<&'static str>),
    Delayed(Duration, Vec<&'static str>),
    Fails,
    Panics,
}

/// A retriever that answers each prompt by its script.
#[derive(Debug, Default)]
struct ScriptedRetriever {
    script: Mutex<VecDeque<ScriptedAnswer>>,
    in_flight: Arc<AtomicUsize>,
    prompts: Mutex<Vec<String>>,
}

/// Counts a recall while it is running.
struct InFlightGuard(Arc<AtomicUsize>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn selected(name: &str) -> RetrievedMemory {
    RetrievedMemory {
        path: path(&format!("/memories/global/{name}.md")),
        revision: Revision::digest(name.as_bytes()),
        title: name.to_owned(),
        text: MatchedText::new(format!("- {name}").into(), Vec::new(), &[]),
        saved_at: None,
        modified_at: Timestamp::UNIX_EPOCH,
        score: 0.9,
        is_weak: false,
        also_in: Vec::new(),
        why: "scripted".to_owned(),
        mark: None,
    }
}

fn memories_named(names: &[&'static str]) -> Vec<RetrievedMemory> {
    names.iter().map(|name| selected(name)).collect()
}

#[async_trait]
impl Retriever for ScriptedRetriever {
    fn try_retrieve(&self, query: &RecallQuery) -> Option<Vec<RetrievedMemory>> {
        self.prompts.lock().unwrap().push(query.prompt.to_string());
        let mut script = self.script.lock().unwrap();
        let Some(ScriptedAnswer::Immediate(names)) = script.front().cloned() else { return None };
        script.pop_front();
        Some(memories_named(&names))
    }

    async fn retrieve(
        &self,
        _query: RecallQuery,
        _stop: CancellationToken,
    ) -> Result<Vec<RetrievedMemory>, Box<dyn Error + Send + Sync>> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let _under_way = InFlightGuard(Arc::clone(&self.in_flight));
        let answer = self.script.lock().unwrap().pop_front();
        match answer {
            Some(ScriptedAnswer::Delayed(wait, names)) => {
                sleep(wait).await;
                Ok(memories_named(&names))
            }
            Some(ScriptedAnswer::Panics) => panic!("the recall panicked"),
            _ => Err("the recall failed".into()),
        }
    }
}

/// A home with an engine, and conversations with a scripted retriever.
struct ConversationFixture {
    _home: TempDir,
    memories: Memories,
    tasks: Arc<dyn TaskStore>,
    scripted: Arc<ScriptedRetriever>,
    conversations: Conversations,
    clock: Arc<ManualClock>,
}

impl ConversationFixture {
    fn new(script: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(config(home.path())).unwrap();
        let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
        let database = home.path().join("conversations.db");
        let tasks: Arc<dyn TaskStore> = Arc::new(SqliteState::new(database));
        let clock = Arc::new(ManualClock::at(Timestamp::UNIX_EPOCH));
        let script = script.into_iter().collect();
        let scripted = Arc::new(ScriptedRetriever {
            script: Mutex::new(script),
            ..ScriptedRetriever::default()
        });
        let conversations = Conversations::new(
            Arc::clone(&tasks),
            Arc::clone(&scripted) as _,
            Arc::clone(&clock) as _,
        );
        Self { _home: home, memories, tasks, scripted, conversations, clock }
    }

    async fn open(&self, id: &str) -> Arc<Conversation> {
        let id = id.parse().unwrap();
        self.conversations.open(&id, "here", &self.memories).await.unwrap().conversation
    }

    /// Returns the conversations as the next process opens them.
    fn restarted(&self) -> Conversations {
        Conversations::new(
            Arc::clone(&self.tasks),
            Arc::clone(&self.scripted) as _,
            Arc::clone(&self.clock) as _,
        )
    }

    fn in_flight(&self) -> usize {
        self.scripted.in_flight.load(Ordering::SeqCst)
    }
}

fn names(recalled: Option<RecallBlock>) -> Vec<String> {
    let memories = recalled.into_iter().flat_map(|recalled| recalled.memories);
    memories.map(|memory| memory.title).collect()
}

fn prompt(conversation: &Conversation, text: &str) -> Option<RecallBlock> {
    conversation.prompt(text, None, &CancellationToken::new())
}

/// Runs all tasks until each of them waits.
async fn run_pending_tasks() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Advances the paused clock.
async fn pass(millis: u64) {
    run_pending_tasks().await;
    advance(Duration::from_millis(millis)).await;
    run_pending_tasks().await;
}

#[tokio::test]
async fn memories_that_are_ready_at_once_are_returned_with_the_prompt() {
    let world = ConversationFixture::new([ScriptedAnswer::Immediate(vec!["tea", "cups"])]);
    let conversation = world.open("c").await;
    assert_eq!(names(prompt(&conversation, "what do I drink?")), ["tea", "cups"]);
    assert_eq!(conversation.tool_result(None), None);
    assert_eq!(*world.scripted.prompts.lock().unwrap(), ["what do I drink?"]);
}

/// Opens a conversation while the clock runs, because the state uses threads of its own. Then
/// pauses the clock.
async fn conversation_in_flight(world: &ConversationFixture) -> Arc<Conversation> {
    let conversation = world.open("c").await;
    world.conversations.flush().await;
    tokio::time::pause();
    conversation
}

#[tokio::test]
async fn a_slow_recall_is_shown_once_at_the_first_call_after_it_is_ready() {
    for delay in [40, 250, 600, 1500, 3000] {
        let does = ScriptedAnswer::Delayed(Duration::from_millis(delay), vec!["tea"]);
        let world = ConversationFixture::new([does]);
        let conversation = conversation_in_flight(&world).await;
        let begun = Instant::now();
        assert_eq!(prompt(&conversation, "tea?"), None);
        assert_eq!(begun.elapsed(), Duration::ZERO, "a prompt waited");
        let mut given = Vec::new();
        // A tool answers every 100 ms. Timers count in milliseconds, so none is due at exactly
        // those times.
        pass(5).await;
        for step in 1..=40_u64 {
            pass(100).await;
            let before = Instant::now();
            let found = conversation.tool_result(None);
            assert_eq!(before.elapsed(), Duration::ZERO, "a tool's result waited");
            if found.is_some() {
                assert_eq!(names(found), ["tea"]);
                given.push(step * 100);
            }
        }
        assert_eq!(given, [delay.div_ceil(100) * 100], "{delay}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_prompt_cancels_the_recall_before_it() {
    let long = Duration::from_mins(1);
    let world = ConversationFixture::new([
        ScriptedAnswer::Delayed(long, vec!["tea"]),
        ScriptedAnswer::Delayed(long, vec!["cups"]),
    ]);
    let conversation = conversation_in_flight(&world).await;
    assert_eq!(prompt(&conversation, "tea?"), None);
    run_pending_tasks().await;
    assert_eq!(world.in_flight(), 1);
    assert_eq!(prompt(&conversation, "cups?"), None);
    run_pending_tasks().await;
    assert_eq!(world.in_flight(), 1, "the first goes on");
    pass(60_005).await;
    assert_eq!(names(conversation.tool_result(None)), ["cups"]);
    pass(60_000).await;
    assert_eq!(conversation.tool_result(None), None);
}

/// An event that ends a recall.
type EndTurn = fn(&Conversation, &CancellationToken);

#[tokio::test]
async fn every_end_of_a_turn_cancels_recall_and_shows_nothing_more() {
    let ends: [(&str, EndTurn); 4] = [
        ("reset", |conversation, _| conversation.reset()),
        ("the end of the turn", |conversation, _| {
            conversation.turn_ended(None);
        }),
        ("compaction", |conversation, _| conversation.compacted(None)),
        ("the caller", |_, cancelled| cancelled.cancel()),
    ];
    for (what, end) in ends {
        for settled in [false, true] {
            let world = ConversationFixture::new([ScriptedAnswer::Delayed(
                Duration::from_secs(1),
                vec!["tea"],
            )]);
            let conversation = conversation_in_flight(&world).await;
            let cancelled = CancellationToken::new();
            assert_eq!(conversation.prompt("tea?", None, &cancelled), None);
            pass(if settled { 1005 } else { 500 }).await;
            assert_eq!(world.in_flight(), usize::from(!settled), "{what}");
            end(&conversation, &cancelled);
            run_pending_tasks().await;
            assert_eq!(world.in_flight(), 0, "{what} leaves work behind");
            pass(5000).await;
            let shown = conversation.tool_result(None);
            assert_eq!(shown, None, "{what}");
            tokio::time::resume();
        }
    }
}

#[tokio::test]
async fn a_closed_conversation_leaves_no_recall_running() {
    let world =
        ConversationFixture::new([ScriptedAnswer::Delayed(Duration::from_hours(1), vec!["tea"])]);
    let conversation = world.open("c").await;
    assert_eq!(prompt(&conversation, "tea?"), None);
    run_pending_tasks().await;
    assert_eq!(world.in_flight(), 1);
    assert!(world.conversations.close(conversation.id()).await);
    run_pending_tasks().await;
    assert_eq!(world.in_flight(), 0);
    assert!(!world.conversations.close(conversation.id()).await);
}

#[tokio::test]
async fn a_failed_recall_shows_nothing_and_the_next_one_works() {
    let world = ConversationFixture::new([
        ScriptedAnswer::Fails,
        ScriptedAnswer::Panics,
        ScriptedAnswer::Immediate(vec!["tea"]),
    ]);
    let conversation = world.open("c").await;
    for _ in 0..2 {
        assert_eq!(prompt(&conversation, "tea?"), None);
        run_pending_tasks().await;
        assert_eq!(conversation.tool_result(None), None);
        assert_eq!(world.in_flight(), 0);
        conversation.turn_ended(None);
    }
    assert_eq!(names(prompt(&conversation, "tea?")), ["tea"]);
}

#[tokio::test]
async fn a_shown_memory_is_not_shown_again_in_its_conversation() {
    let again = || ScriptedAnswer::Immediate(vec!["tea", "cups"]);
    let world =
        ConversationFixture::new([ScriptedAnswer::Immediate(vec!["tea"]), again(), again()]);
    let conversation = world.open("c").await;
    assert_eq!(names(prompt(&conversation, "1")), ["tea"]);
    assert_eq!(names(prompt(&conversation, "2")), ["cups"]);
    assert_eq!(prompt(&conversation, "3"), None);
    let other = world.open("d").await;
    world.scripted.script.lock().unwrap().push_back(again());
    assert_eq!(names(prompt(&other, "1")), ["tea", "cups"], "another conversation");
}

#[tokio::test]
async fn after_a_compaction_everything_is_shown_again_and_after_a_stopped_turn_nothing() {
    let tea = || ScriptedAnswer::Immediate(vec!["tea"]);
    let world = ConversationFixture::new([tea(), tea(), tea(), tea()]);
    let conversation = world.open("c").await;
    assert_eq!(names(prompt(&conversation, "1")), ["tea"]);
    conversation.reset();
    assert_eq!(prompt(&conversation, "2"), None);
    conversation.compacting();
    assert_eq!(prompt(&conversation, "3"), None, "the user may still stop it");
    conversation.compacted(None);
    assert_eq!(names(prompt(&conversation, "4")), ["tea"]);
    // Another process, which read the record before, does not restore what was shown before.
    world.conversations.flush().await;
    world.scripted.script.lock().unwrap().push_back(tea());
    let later = world.restarted().open(conversation.id(), "here", &world.memories).await.unwrap();
    assert_eq!(prompt(&later.conversation, "5"), None, "shown in this segment");
}

#[tokio::test]
async fn a_block_is_limited_and_the_rest_may_be_shown_later() {
    let many = || ScriptedAnswer::Immediate(vec!["a", "b", "c", "d", "e", "f", "g"]);
    let world = ConversationFixture::new([many(), many()]);
    let conversation = world.open("c").await;
    let first = prompt(&conversation, "1");
    assert_eq!(names(first.clone()), ["a", "b", "c", "d", "e"]);
    let block = first.unwrap().block;
    assert!(block.starts_with("<recalled_memories>\n"), "{block}");
    assert_eq!(block.matches("<memory_file ").count(), 5, "{block}");
    assert!(block.contains("- e\n") && !block.contains("- f\n"), "{block}");
    assert_eq!(names(prompt(&conversation, "2")), ["f", "g"]);
}

#[tokio::test]
async fn a_repeated_event_has_no_effect() {
    let tea = || ScriptedAnswer::Immediate(vec!["tea"]);
    let world = ConversationFixture::new([tea(), tea()]);
    let conversation = world.open("c").await;
    let cancelled = CancellationToken::new();
    assert_eq!(names(conversation.prompt("tea?", Some("e1"), &cancelled)), ["tea"]);
    assert_eq!(conversation.prompt("tea?", Some("e1"), &cancelled), None);
    assert_eq!(world.scripted.prompts.lock().unwrap().len(), 1);
    assert_eq!(conversation.turn_ended(Some("e2")), 1);
    assert_eq!(conversation.turn_ended(Some("e2")), 1);
    assert_eq!(conversation.turn_ended(Some("e3")), 2);
    conversation.compacted(Some("e4"));
    conversation.compacted(Some("e4"));
    assert_eq!(conversation.counts(), (2, 1));
}

#[tokio::test]
async fn the_same_text_in_one_turn_is_the_same_prompt() {
    let world = ConversationFixture::new([
        ScriptedAnswer::Delayed(Duration::from_millis(100), vec!["tea"]),
        ScriptedAnswer::Immediate(vec!["cups"]),
    ]);
    let conversation = conversation_in_flight(&world).await;
    assert_eq!(prompt(&conversation, "tea?"), None);
    pass(50).await;
    assert_eq!(prompt(&conversation, "tea?"), None);
    assert_eq!(world.in_flight(), 1);
    pass(55).await;
    assert_eq!(names(prompt(&conversation, "tea?")), ["tea"]);
    assert_eq!(prompt(&conversation, "tea?"), None);
    assert_eq!(world.scripted.prompts.lock().unwrap().len(), 1);
    conversation.turn_ended(None);
    assert_eq!(names(prompt(&conversation, "tea?")), ["cups"], "another turn");
}

#[tokio::test]
async fn a_conversation_resumes_after_a_restart() {
    let tea = || ScriptedAnswer::Immediate(vec!["tea", "cups"]);
    let world = ConversationFixture::new([ScriptedAnswer::Immediate(vec!["tea"]), tea()]);
    let conversation = world.open("c").await;
    assert_eq!(names(prompt(&conversation, "1")), ["tea"]);
    assert_eq!(conversation.turn_ended(Some("end of 1")), 1);
    world.conversations.flush().await;
    let later = world.restarted();
    let opened = later.open(conversation.id(), "here", &world.memories).await.unwrap();
    assert!(opened.resumed);
    let conversation = opened.conversation;
    assert_eq!(conversation.turn_ended(Some("end of 1")), 1, "repeated after the restart");
    assert_eq!(names(prompt(&conversation, "2")), ["cups"]);
    let elsewhere = later.open(conversation.id(), "there", &world.memories).await.unwrap_err();
    assert_eq!(
        elsewhere.to_string(),
        "a conversation with this id exists in another workspace; use another id"
    );
}

#[tokio::test]
async fn records_of_two_processes_in_one_conversation_are_merged() {
    let world = ConversationFixture::new([
        ScriptedAnswer::Immediate(vec!["tea"]),
        ScriptedAnswer::Immediate(vec!["cups"]),
    ]);
    let other = world.restarted();
    let here = world.open("c").await;
    let there = other.open(here.id(), "here", &world.memories).await.unwrap().conversation;
    assert_eq!(names(prompt(&here, "1")), ["tea"]);
    assert_eq!(names(prompt(&there, "1")), ["cups"]);
    world.conversations.flush().await;
    other.flush().await;
    world.scripted.script.lock().unwrap().push_back(ScriptedAnswer::Immediate(vec!["tea", "cups"]));
    let later = world.restarted();
    let third = later.open(here.id(), "here", &world.memories).await.unwrap().conversation;
    assert_eq!(prompt(&third, "2"), None);
}

#[tokio::test]
async fn a_damaged_record_starts_the_conversation_again() {
    let world = ConversationFixture::new([ScriptedAnswer::Immediate(vec!["tea"])]);
    let row = state::ConversationRow {
        id: "c".to_owned(),
        workspace: "here".to_owned(),
        version: 1,
        last_seen_at: Timestamp::UNIX_EPOCH,
        data: "[broken".to_owned(),
    };
    assert!(world.tasks.save_conversation(row).await.unwrap());
    let conversation = world.open("c").await;
    assert_eq!(names(prompt(&conversation, "1")), ["tea"]);
    world.conversations.flush().await;
    assert_eq!(world.tasks.conversation("c").await.unwrap().unwrap().version, 2);
}

#[tokio::test]
async fn conversation_ids_are_checked() {
    let long = "x".repeat(129);
    let longest = "x".repeat(128);
    for bad in ["", "a b", "a/b", "ä", "a\n", long.as_str()] {
        assert!(bad.parse::<lukasa_engine::ConversationId>().is_err(), "{bad:?}");
    }
    for good in ["a", "0f2c-77:x_.y", longest.as_str()] {
        assert_eq!(good.parse::<lukasa_engine::ConversationId>().unwrap().as_str(), good);
    }
}

/// An action of a host. Times are in hundredths of a second. A recall is ready half a hundredth
/// earlier, because timers count in whole milliseconds.
#[derive(Clone, Debug)]
enum HostAction {
    Prompt(u16),
    ToolResult,
    Pass(u16),
    TurnEnded,
    Compacted,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<HostAction>> {
    let step = prop_oneof![
        1 => (0..40_u16).prop_map(HostAction::Prompt),
        4 => Just(HostAction::ToolResult),
        4 => (1..30_u16).prop_map(HostAction::Pass),
        1 => Just(HostAction::TurnEnded),
        1 => Just(HostAction::Compacted),
        1 => Just(HostAction::Reset),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Runs the steps beside a model of the expected recall and the time at which it is ready.
async fn check_against_model(steps: Vec<HostAction>) {
    let world = ConversationFixture::new([]);
    let conversation = conversation_in_flight(&world).await;
    let (mut now, mut coming) = (0_u64, None);
    let mut prompts = 0;
    for step in steps {
        let shown = match step {
            HostAction::Prompt(delay) => {
                prompts += 1;
                let name: &'static str = Box::leak(format!("memory-{prompts}").into_boxed_str());
                let wait = Duration::from_millis((10 * u64::from(delay)).saturating_sub(5));
                let does = if delay == 0 {
                    ScriptedAnswer::Immediate(vec![name])
                } else {
                    ScriptedAnswer::Delayed(wait, vec![name])
                };
                world.scripted.script.lock().unwrap().push_back(does);
                coming = Some((now + u64::from(delay), name));
                let shown = prompt(&conversation, &format!("{prompts}?"));
                run_pending_tasks().await;
                Some(shown)
            }
            HostAction::ToolResult => Some(conversation.tool_result(None)),
            HostAction::Pass(hundredths) => {
                pass(10 * u64::from(hundredths)).await;
                now += u64::from(hundredths);
                None
            }
            HostAction::TurnEnded => {
                conversation.turn_ended(None);
                coming = None;
                None
            }
            HostAction::Compacted => {
                conversation.compacted(None);
                coming = None;
                None
            }
            HostAction::Reset => {
                conversation.reset();
                coming = None;
                None
            }
        };
        run_pending_tasks().await;
        if let Some(shown) = shown {
            let due = coming.take_if(|(at, _)| *at <= now).map(|(_, name)| name);
            assert_eq!(names(shown), due.into_iter().collect::<Vec<_>>());
        }
        let under_way = coming.is_some_and(|(at, _)| at > now);
        assert_eq!(world.in_flight(), usize::from(under_way));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_prompt_is_answered_at_most_once_and_as_early_as_possible(
        steps in steps(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_against_model(steps));
    }
}

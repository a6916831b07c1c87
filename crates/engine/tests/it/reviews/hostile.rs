//! Tests of reviews with concurrent changes, and with a model or host that misbehaves.

use lukasa_engine::{ContextMode, CuratorRequest, DryRun, RememberRequest, Requester, UndoTarget};
use tokio_util::sync::CancellationToken;

use super::*;

impl ReviewFixture {
    /// Returns the conversations as another process opens them, with an empty cache.
    fn conversations_of_other_process(&self) -> Conversations {
        let workspaces = std::slice::from_ref(&self.workspace);
        self.engine.reviewed_conversations(self.engine.recaller(), &self.lanes, workspaces)
    }

    async fn submit_and_wait(&self, request: CuratorRequest) -> Task {
        let task =
            self.lanes.submit(&self.workspace, request, Requester::person("cli")).await.unwrap();
        self.lanes.wait(&self.workspace, &task.id).await.unwrap().unwrap()
    }

    async fn stored_row(&self, id: &str) -> String {
        self.conversations.flush().await;
        self.database().conversation(id).await.unwrap().unwrap().data
    }

    async fn undo(&self, task: &Task) {
        let target = UndoTarget::Task(task.id.to_string());
        self.memories().undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
    }
}

fn remember(content: &str) -> CuratorRequest {
    let (content, context_mode) = (content.to_owned(), ContextMode::Workspace);
    CuratorRequest::Remember(RememberRequest { content, context_mode, scope: None })
}

#[tokio::test]
async fn an_update_moves_no_private_fact_into_a_project() {
    let private = "My doctor says that I have diabetes";
    let world = ReviewFixture::every(
        1,
        vec![
            ModelReply::Calls(vec![add("memory", "The build needs make 4", &["m1"])]),
            nothing(),
            ModelReply::call(
                "update_memory",
                json!({ "id": "e1", "text": private, "evidence": ["m1"] }),
            ),
            nothing(),
        ],
    );
    let texts = ["the build needs make 4", "the build needs insulin, says my doctor"];
    let reviews = world.turns("talk", &texts).await;
    let text = world.text().await;
    assert!(text.contains("/memories/project/"), "{text}");
    assert!(!text.contains("diabetes"), "{text}");
    assert_eq!(left_out(&reviews[1]), [(FindingSkipReason::Place, 1)]);
}

#[tokio::test]
async fn a_remembered_fact_survives_the_undo_of_a_review_that_saved_it() {
    let world = ReviewFixture::every(
        1,
        vec![ModelReply::Calls(vec![add("user", "I prefer tabs everywhere", &["m1"])]), nothing()],
    );
    let reviews = world.turns("talk", &["I prefer tabs everywhere"]).await;
    world.submit_and_wait(remember("I prefer tabs everywhere")).await;
    world.undo(&reviews[0]).await;
    let text = world.text().await;
    assert!(text.contains("I prefer tabs everywhere"), "{text}");
}

#[tokio::test]
async fn a_correction_by_a_person_does_not_wait_for_review() {
    let world = ReviewFixture::every(
        1,
        vec![ModelReply::Calls(vec![add("user", "My editor is Helix", &["m1"])]), nothing()],
    );
    world.turns("talk", &["My editor is Helix"]).await;
    world.submit_and_wait(remember("My editor is Zed")).await;
    let memories = world.memories();
    let mut is_settled = false;
    for listed in memories.list(None).await.unwrap().memories {
        let text = memories.read(&listed.path).await.unwrap().text;
        let waits = memories.unreviewed(&[(&listed.path, None)]).await;
        is_settled |= text.contains("Zed") && waits.is_empty();
    }
    assert!(is_settled, "{}", world.text().await);
}

#[tokio::test]
async fn a_dream_keeps_the_entry_of_a_person_over_an_unreviewed_one() {
    let world = ReviewFixture::every(
        1,
        vec![ModelReply::Calls(vec![add("user", "I prefer tabs everywhere", &["m1"])]), nothing()],
    );
    world.turns("talk", &["I prefer tabs everywhere"]).await;
    let at = world.memories().list(None).await.unwrap().memories[0].path.clone();
    // Written with an editor, so that history does not contain it.
    let name = at.relative().unwrap().as_str().replace(".md", "-2.md");
    let by_hand = world.home.path().join("data/memory").join(name);
    std::fs::write(&by_hand, "- I prefer tabs everywhere\n- I like tea\n").unwrap();
    world.memories().set_pin(&at, true).await.unwrap();
    world.submit_and_wait(CuratorRequest::Dream).await;
    let text = std::fs::read_to_string(&by_hand).unwrap();
    assert!(text.contains("I prefer tabs everywhere"), "{}", world.text().await);
    world.memories().set_pin(&at, false).await.unwrap();
    world.submit_and_wait(CuratorRequest::Dream).await;
    let text = std::fs::read_to_string(&by_hand).unwrap();
    assert!(text.contains("I prefer tabs everywhere"), "{}", world.text().await);
}

#[tokio::test]
async fn a_turn_is_kept_when_another_process_queues_a_review() {
    let world = ReviewFixture::every(2, vec![nothing()]);
    let here = world.conversation("talk").await;
    turn(&here, "one");
    world.conversations.flush().await;
    let other = world.conversations_of_other_process();
    let memories = world.memories();
    let there = other.open(&"talk".parse().unwrap(), &world.workspace.id, &memories).await;
    let there = there.unwrap().conversation;
    turn(&there, "two");
    other.flush().await;
    world.lanes.wait_until_idle(Duration::from_secs(20)).await;
    assert_eq!(world.reviews().await.len(), 1);
    // This process has counted only one turn so far.
    turn(&here, "three");
    let stored = world.stored_row("talk").await;
    assert!(stored.contains("three"), "{stored}");
    turn(&there, "four");
    other.flush().await;
    world.lanes.wait_until_idle(Duration::from_secs(20)).await;
    assert_eq!(world.reviews().await.len(), 2);
    let sent = world.server.requests()[1].text();
    assert!(sent.contains("three") && sent.contains("four"), "{sent}");
}

#[tokio::test]
async fn a_turn_counts_even_with_very_long_answers() {
    let world = ReviewFixture::every(1, vec![nothing()]);
    let conversation = world.conversation("talk").await;
    let mut messages = vec![(MessageRole::User, "I prefer tabs everywhere".to_owned())];
    messages
        .extend((0..80).map(|n| (MessageRole::Assistant, format!("{n} {}", "x".repeat(1_500)))));
    conversation.turn_ended_with_report(None, &TurnReport { messages, wrote_memory: false });
    world.conversations.flush().await;
    world.lanes.wait_until_idle(Duration::from_secs(20)).await;
    assert_eq!(world.reviews().await.len(), 1);
    let sent = world.server.requests()[0].text();
    assert!(sent.contains("I prefer tabs everywhere"), "{sent}");
}

#[tokio::test]
async fn a_turn_with_several_compactions_is_reviewed_once() {
    let world = ReviewFixture::new(vec![nothing()]);
    let conversation = world.conversation("talk").await;
    conversation.prompt("leave the parser as it is", None, &CancellationToken::new());
    for _ in 0..3 {
        conversation.compacted(None);
        world.conversations.flush().await;
        world.lanes.wait_until_idle(Duration::from_secs(20)).await;
    }
    assert_eq!(world.reviews().await.len(), 1);
    let stored = world.stored_row("talk").await;
    assert!(!stored.contains("parser"), "{stored}");
    // The turn still counts when it ends.
    conversation.turn_ended_with_report(None, &TurnReport::default());
    assert_eq!(world.turns("talk", &["two"]).await.len(), 1);
    assert_eq!(world.turns("talk", &["three"]).await.len(), 2);
    let sent = world.server.requests()[1].text();
    assert!(!sent.contains("parser"), "{sent}");
}

#[tokio::test]
async fn the_messages_of_a_turn_are_limited() {
    let world = ReviewFixture::every(2, vec![nothing()]);
    let conversation = world.conversation("talk").await;
    let messages = (0..100_000).map(|n| (MessageRole::User, n.to_string())).collect();
    let began = std::time::Instant::now();
    conversation.turn_ended_with_report(None, &TurnReport { messages, wrote_memory: false });
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let stored = world.stored_row("talk").await;
    assert!(stored.len() < 3 * 64 * 1024, "{}", stored.len());
    assert!(stored.contains("99999"));
}

#[tokio::test]
async fn a_turn_that_began_with_a_saved_memory_is_not_reviewed() {
    let world = ReviewFixture::every(1, vec![nothing()]);
    let conversation = world.conversation("talk").await;
    conversation.wrote_memory();
    turn(&conversation, "remember that I prefer tabs");
    let stored = world.stored_row("talk").await;
    assert!(!stored.contains("tabs"), "{stored}");
    world.lanes.wait_until_idle(Duration::from_secs(20)).await;
    assert_eq!(world.reviews().await, []);
}

#[tokio::test]
async fn a_conversation_of_another_workspace_is_not_written() {
    let world = ReviewFixture::every(3, vec![nothing()]);
    let here = world.conversation("talk").await;
    turn(&here, "I prefer tabs");
    world.conversations.flush().await;
    let mut row = world.database().conversation("talk").await.unwrap().unwrap();
    row.workspace = "another".to_owned();
    row.version += 1;
    row.data = row.data.replace("tabs", "secrets of another project");
    assert!(world.database().save_conversation(row.clone()).await.unwrap());
    turn(&here, "go on");
    world.conversations.flush().await;
    let now = world.database().conversation("talk").await.unwrap().unwrap();
    assert_eq!(now, row);
}

#[tokio::test]
async fn what_waits_for_a_review_goes_too_when_the_interval_is_0() {
    let world = ReviewFixture::every(1, vec![ModelReply::Nothing]);
    let conversation = world.conversation("talk").await;
    turn(&conversation, "I prefer tabs everywhere");
    world.conversations.flush().await;
    world.lanes.drain(Duration::ZERO).await;
    world.engine.close().await;
    let server = ModelServer::scripted(vec![ModelReply::Calls(vec![add(
        "user",
        "I prefer tabs everywhere",
        &["m1"],
    )])])
    .unwrap();
    let world = ReviewFixture::open(world.home, 0, server);
    let queued = world.reviews().await;
    assert_eq!(queued.len(), 1);
    let serving = world
        .engine
        .serve(std::slice::from_ref(&world.workspace), world.engine.lane_settings())
        .await
        .unwrap();
    serving.lanes.wait_until_idle(Duration::from_secs(20)).await;
    assert_eq!(world.text().await, "");
    let row = world.database().task(queued[0].id.as_str()).await.unwrap().unwrap();
    assert!(!row.request.contains("tabs"), "{row:?}");
    serving.lanes.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_memory_of_a_review_still_waits_after_an_external_edit() {
    let world = ReviewFixture::every(
        1,
        vec![ModelReply::Calls(vec![add("user", "I prefer tabs everywhere", &["m1"])]), nothing()],
    );
    world.turns("talk", &["I prefer tabs everywhere"]).await;
    let memories = world.memories();
    let at = memories.list(None).await.unwrap().memories[0].path.clone();
    memories.set_pin(&at, true).await.unwrap();
    let file = world.home.path().join("data/memory").join(at.relative().unwrap().as_str());
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}- What a formatter added\n")).unwrap();
    let files = world.engine.context_files(&world.workspace, Caller::person("test"));
    let showing = world.engine.segment(&memories, &files).await.unwrap();
    assert!(!showing.facts[0].is_shown(), "{:?}", showing.facts);
    // The external edit is recorded before an agent's change.
    let insert = MemoryCommand::StrReplace {
        path: at.clone(),
        old_str: "formatter".to_owned(),
        new_str: "program".to_owned(),
    };
    let agent = Caller::agent(memory::access::AgentClass::Exec, "test");
    let agents = world.engine.memories(&world.workspace.binding, agent);
    agents.apply(insert, &CallContext::default()).await.unwrap();
    let showing = world.engine.segment(&memories, &files).await.unwrap();
    assert!(!showing.facts[0].is_shown(), "{:?}", showing.facts);
}

//! Conversations: recalled memories are returned once, and no call waits.

use lukasa::Turn;

use crate::{TestHome, person};

#[tokio::test]
async fn recalled_memories_are_shown_once() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    memories.create("global/build.md", "- The build needs pnpm.\n").await.unwrap();
    let conversation = memories.conversation("talk-1").await.unwrap();
    let mut shown = conversation.prompt("how do I build this?");
    while shown.is_none() {
        // Recall runs in the background: yielding lets the runtime continue it.
        tokio::task::yield_now().await;
        shown = conversation.tool_result();
    }
    let shown = shown.unwrap();
    assert_eq!(shown.hits.len(), 1);
    assert!(shown.block.contains("The build needs pnpm."), "{}", shown.block);
    assert_eq!(conversation.tool_result(), None);
    assert_eq!(conversation.turn_ended(Turn::new()), 1);

    assert_eq!(conversation.prompt("how do I build this?"), None);
    assert_eq!(conversation.turn_ended(Turn::new()), 2);
    conversation.close().await.unwrap();
    lukasa.close().await;
}

#[tokio::test]
async fn a_conversation_continues_after_a_restart() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let conversation = person(&lukasa).conversation("talk-1").await.unwrap();
    conversation.prompt("hello");
    conversation.turn_ended(Turn::new());
    conversation.close().await.unwrap();
    lukasa.close().await;

    let lukasa = home.open().await;
    let conversation = person(&lukasa).conversation("talk-1").await.unwrap();
    assert_eq!(conversation.turn_ended(Turn::new()), 2);
    let other = lukasa.workspace(home.checkout("shop")).as_person("test");
    assert_eq!(other.conversation("talk-1").await.unwrap_err().code(), "conflict");
    lukasa.close().await;
}

#[tokio::test]
async fn the_context_keeps_its_bytes_and_changes_are_returned_separately() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    memories.create("global/a.md", "- one\n").await.unwrap();
    let conversation = memories.conversation("talk-1").await.unwrap();
    let context = conversation.context().await.unwrap();
    assert!(context.text.contains("global/a.md") && context.tokens > 0, "{context:?}");

    memories.create("global/b.md", "- two\n").await.unwrap();
    assert_eq!(conversation.context().await.unwrap(), context);
    assert!(conversation.changes().await.unwrap().unwrap().contains("global/b.md"));
    assert_eq!(conversation.changes().await.unwrap(), None);
    conversation.compacted();
    assert!(conversation.context().await.unwrap().text.contains("global/b.md"));
    lukasa.close().await;
}

#[tokio::test]
async fn turns_are_reviewed_in_the_background_if_enabled() {
    let home = TestHome::new();
    let lukasa = lukasa::Lukasa::builder(home.path()).review_every(1).open().await.unwrap();
    let memories = person(&lukasa);
    let conversation = memories.conversation("talk-1").await.unwrap();
    conversation.prompt("Remember that I always want answers in French.");
    conversation.turn_ended(Turn::new().assistant("D'accord."));
    conversation.close().await.unwrap();
    let tasks = memories.tasks().await.unwrap();
    assert_eq!(tasks.len(), 1);
    tasks[0].wait().await.unwrap();
    lukasa.close().await;
}

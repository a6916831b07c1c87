//! Tests of eviction after a quiet period, and of the number of rankings per prompt.

use memory::command::MemoryCommand;
use memory::path::{Layout, MemoryPath};
use recall::limits::CORPUS_TRIM_DELAY;
use store::{BaseFolders, CallContext, Caller};

use super::corpus::RANKINGS;
use super::*;
use crate::{BindingRequest, Config, Engine};

#[tokio::test]
async fn an_outdated_corpus_is_evicted_after_a_while_and_a_current_one_stays() {
    let home = tempfile::tempdir().unwrap();
    let folders = BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
    let engine = Engine::open(Config::new(folders)).unwrap();
    let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
    let recaller = engine.recaller();
    let (following, notices) = (Arc::clone(&recaller), engine.subscribe());
    let following = tokio::spawn(async move { following.follow(notices).await });
    let write = async |name: &str| {
        let before = recaller.change_count.load(Ordering::SeqCst);
        let path = format!("/memories/global/{name}.md");
        let path = MemoryPath::parse(&path, Layout::Scoped).unwrap();
        let file_text = format!("- The ferry to {name} is called Tern.\n");
        memories
            .apply(MemoryCommand::Create { path, file_text }, &CallContext::default())
            .await
            .unwrap();
        while recaller.change_count.load(Ordering::SeqCst) == before {
            tokio::task::yield_now().await;
        }
    };

    recaller.prepare(&memories).await.unwrap();
    write("brenn").await;
    recaller.prepare(&memories).await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(2 * CORPUS_TRIM_DELAY).await;
    assert_eq!(recaller.live_corpora().len(), 1, "it was brought up to date after the change");
    tokio::time::resume();
    write("hollum").await;
    tokio::time::pause();
    while !recaller.live_corpora().is_empty() {
        tokio::time::sleep(CORPUS_TRIM_DELAY).await;
    }
    tokio::time::resume();
    for name in ["brenn", "hollum"] {
        let prompt = format!("what is the ferry to {name} called?");
        let found = recaller.recall(&memories, &prompt).await.unwrap();
        assert_eq!(found[0].path.to_string(), format!("/memories/global/{name}.md"));
    }
    following.abort();
}

#[tokio::test]
async fn a_process_that_ends_with_the_answer_ranks_a_prompt_once() {
    let home = tempfile::tempdir().unwrap();
    let folders = BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
    let open = || Engine::open(Config::new(folders.clone())).unwrap();
    let engine = open();
    let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
    for number in 0..40 {
        let path = format!("/memories/global/{number}.md");
        let path = MemoryPath::parse(&path, Layout::Scoped).unwrap();
        let file_text = format!("- Ferry {number} is called Tern.\n");
        memories
            .apply(MemoryCommand::Create { path, file_text }, &CallContext::default())
            .await
            .unwrap();
    }
    engine.recaller().prepare(&memories).await.unwrap();
    engine.close().await;

    // The next process loads the corpus without texts, and reads those that it shows.
    let engine = open();
    let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
    let conversations = engine.conversations(engine.recaller());
    let id = "talk-1".parse().unwrap();
    let opened = conversations.open(&id, "workspace", &memories).await.unwrap();
    let before = RANKINGS.get();
    let shown = opened.conversation.prompt_and_wait("what is ferry 7 called?").await.unwrap();
    assert!(!shown.unwrap().memories.is_empty());
    assert_eq!(RANKINGS.get() - before, 1);
    engine.close().await;
}

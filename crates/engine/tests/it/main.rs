//! Tests of the engine's public interface on real folders: opening, working, closing, opening
//! again.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the tests read real folders, and their helpers panic on errors"
)]

mod conversation;
mod embeddings;
mod feeds;
mod host_workspaces;
mod lane;
mod recall_shown;
mod recaller;
mod reranker;
mod reviews;
mod segment;

use std::collections::BTreeMap;
use std::path::Path;

use lukasa_engine::{
    BaseFolders, BindingRequest, CallContext, Caller, ChangesQuery, Config, Engine, EngineError,
};
use memory::access::AgentClass;
use memory::command::{MemoryCommand, Reply, ViewRange};
use memory::path::{Layout, MemoryPath};
use memory::screen::Policy;

fn config(home: &Path) -> Config {
    Config::new(BaseFolders { data: home.join("data"), state: home.join("state") })
}

fn path(text: &str) -> MemoryPath {
    MemoryPath::parse(text, Layout::Scoped).unwrap()
}

fn create(at: &str, text: &str) -> MemoryCommand {
    MemoryCommand::Create { path: path(at), file_text: text.to_owned() }
}

#[tokio::test]
async fn opening_and_reading_create_no_files() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(config(home.path())).unwrap();
    let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
    assert_eq!(memories.list(None).await.unwrap().memories, []);
    assert_eq!(memories.changes(&ChangesQuery { max: 9, ..Default::default() }).await.unwrap(), []);
    let view = MemoryCommand::View { path: path("/memories"), lines: ViewRange::Whole };
    assert!(matches!(
        memories.apply(view, &CallContext::default()).await.unwrap(),
        Reply::Done { .. }
    ));
    engine.close().await;
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_next_engine_reads_what_was_written() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(config(home.path())).unwrap();
    let agent = Caller::agent(AgentClass::Exec, "test");
    let memories = engine.memories(&BindingRequest::default(), agent.clone());
    let made =
        memories.apply(create("/memories/global/a.md", "one\n"), &CallContext::default()).await;
    assert!(matches!(made.unwrap(), Reply::Done { .. }));
    engine.close().await;

    let engine = Engine::open(config(home.path())).unwrap();
    let memories = engine.memories(&BindingRequest::default(), agent);
    let listed = memories.list(None).await.unwrap().memories;
    let listed: Vec<_> = listed.iter().map(|one| (one.path.clone(), one.usage.uses)).collect();
    assert_eq!(listed, [(path("/memories/global/a.md"), 1)]);
    let changes = memories.changes(&ChangesQuery { max: 9, ..Default::default() }).await.unwrap();
    assert_eq!(changes.len(), 1);
    engine.close().await;
}

#[tokio::test]
async fn a_disabled_screening_rule_lets_text_through() {
    let home = tempfile::tempdir().unwrap();
    let secret = format!("- the key is {}{}\n", "AKIA", "QYXWVUTSRQPON7LM");
    for (policy, passes) in [(None, false), (Some(Policy::Off), true)] {
        let mut config = config(&home.path().join(passes.to_string()));
        config.screening =
            policy.map(|policy| ("secrets".to_owned(), policy)).into_iter().collect();
        let engine = Engine::open(config).unwrap();
        let memories = engine.memories(&BindingRequest::default(), Caller::person("test"));
        let reply =
            memories.apply(create("/memories/global/k.md", &secret), &CallContext::default()).await;
        assert_eq!(matches!(reply.unwrap(), Reply::Done { .. }), passes, "{policy:?}");
        engine.close().await;
    }
}

#[test]
fn a_misspelled_rule_keeps_the_engine_from_opening() {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path());
    config.screening = BTreeMap::from([("secretz".to_owned(), Policy::Off)]);
    assert!(matches!(Engine::open(config), Err(EngineError::Screening(_))));
}

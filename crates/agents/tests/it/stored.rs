//! Curators over a real store: results are drafts, and only commits write.
//!
//! Covers the cache between tasks, external edits, text of a checkout, and dates from history.

use std::fs;
use std::sync::Arc;

use jiff::tz::TimeZone;
use lukasa_agents::{
    ContextMode, CurateError, Curator, CuratorModels, ForgetRequest, Ledger, RememberError,
    RememberRequest, RuleCurator,
};
use memory::access::AgentClass;
use memory::change::{ChangeKind, RootKey};
use memory::clock::Clock;
use memory::command::{MemoryCommand, Reply};
use memory::document;
use memory::path::{Layout, MemoryPath, Mount, Scope};
use memory::screen::Screen;
use store::backend::Backend;
use store::backend::local::{LocalBackend, Privacy, RootDir};
use store::{
    BaseFolders, Binding, BindingRequest, CallContext, Caller, Memories, Store, StoreSettings,
};
use tempfile::TempDir;
use testkit::{FaultPlan, FaultyBackend, ManualClock};

/// Returns a new store, bound for an agent in a checkout.
pub(crate) fn memories() -> (TempDir, Memories) {
    let (home, memories, _) = memories_with_clock();
    (home, memories)
}

fn memories_with_clock() -> (TempDir, Memories, Arc<ManualClock>) {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("shop/.git")).unwrap();
    let folders = BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
    let state = testkit::sqlite_state(&folders.state);
    let settings = StoreSettings { memory_list: false, ..StoreSettings::default() };
    let clock = Arc::new(ManualClock::default());
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let store = Store::new(state, folders.clone(), Screen::default(), shared, settings);
    let checkout = BindingRequest {
        project: Some(home.path().join("shop").into()),
        ..BindingRequest::default()
    };
    let binding = Binding::resolve(&checkout, &folders);
    let memories = store.memories(binding, Caller::agent(AgentClass::Exec, "test"));
    (home, memories, clock)
}

fn curator() -> Curator<ManualClock> {
    let rules = RuleCurator::new(Screen::default(), ManualClock::default(), TimeZone::UTC);
    Curator::new(rules, CuratorModels::default())
}

fn ask(content: &str) -> RememberRequest {
    let context_mode = ContextMode::Workspace;
    RememberRequest { content: content.to_owned(), context_mode, scope: None }
}

#[tokio::test]
async fn a_remembered_fact_is_written_by_the_commit_and_not_before() {
    let (_home, memories) = memories();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let done = curator()
        .remember(&memories, &mut draft, &ask("I keep bees."), &Ledger::default())
        .await
        .unwrap();
    assert_eq!(memories.list(None).await.unwrap().memories.len(), 0);
    draft.commit().await.unwrap().unwrap();
    let [path] = done.changed_paths.as_slice() else { panic!("{done:?}") };
    assert_eq!(
        memories.read(path).await.unwrap().text,
        "---\ntype: user\ndescription: I keep bees\nname: keep bees\n---\n\n- I keep bees.\n"
    );
}

#[tokio::test]
async fn a_memory_without_entries_is_removed() {
    let (_home, memories) = memories();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    curator()
        .remember(&memories, &mut draft, &ask("I keep bees."), &Ledger::default())
        .await
        .unwrap();
    draft.commit().await.unwrap().unwrap();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let query = "forget the bees".to_owned();
    let request = ForgetRequest { query, scope: None, file: None };
    let done = curator().forget(&memories, &mut draft, &request, &Ledger::default()).await.unwrap();
    draft.commit().await.unwrap().unwrap();
    assert_eq!(done.removed.len(), 1);
    assert_eq!(memories.list(None).await.unwrap().memories.len(), 0);
}

#[tokio::test]
async fn a_dream_merges_in_one_change() {
    let (home, memories) = memories();
    let folder = home.path().join("data/memory");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pier.md"), "- The pier gate opens at six\n- Gates are green\n").unwrap();
    fs::write(folder.join("pier-2.md"), "- the pier gate opens at six.\n").unwrap();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let done = curator().dream(&memories, &mut draft, &Ledger::default()).await.unwrap();
    let id = draft.commit().await.unwrap().unwrap();
    assert_eq!((done.merged_entries, memories.change(id).await.unwrap().files.len()), (1, 1));
    assert!(!folder.join("pier-2.md").exists());
}

#[tokio::test]
async fn a_generated_listing_is_no_memory() {
    let (home, memories) = memories();
    let folder = home.path().join("data/memory");
    fs::create_dir_all(&folder).unwrap();
    let list = format!("{}\n- [Pier](pier.md) — the gate opens\n", document::MEMORY_LIST_MARK);
    fs::write(folder.join("MEMORY.md"), &list).unwrap();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let request = ForgetRequest { query: "forget the pier".to_owned(), scope: None, file: None };
    let done = curator().forget(&memories, &mut draft, &request, &Ledger::default()).await.unwrap();
    assert_eq!((done.removed.len(), draft.changed_paths().len()), (0, 0));
    let scanned = memories.scan_roots().await.unwrap();
    assert!(scanned.iter().any(|memory| memory.path.to_string().ends_with("MEMORY.md")));
}

#[tokio::test]
async fn a_memory_of_a_checkout_never_removes_one_written_here() {
    let (home, memories) = memories();
    let folder = home.path().join("shop/.lukasa/memory");
    fs::create_dir_all(&folder).unwrap();
    let own = "- The pier gate opens at six.\n- The lamp burns at 01:00 (2026-01-10)\n";
    let path = MemoryPath::parse("/memories/project/pier-2.md", Layout::Scoped).unwrap();
    let create = MemoryCommand::Create { path, file_text: own.to_owned() };
    memories.apply(create, &CallContext::default()).await.unwrap();
    let outside = "- The pier gate opens at six.\n- The lamp burns at 03:00 (2026-03-02)\n";
    fs::write(folder.join("pier.md"), outside).unwrap();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let done = curator().dream(&memories, &mut draft, &Ledger::default()).await.unwrap();
    assert_eq!((done.merged_entries, done.proposals, draft.changed_paths()), (0, vec![], vec![]));
}

#[tokio::test]
async fn a_memory_of_a_checkout_decides_nothing_about_new_facts() {
    let (home, memories) = memories();
    let planted = [
        ("user/prefs.md", "---\ntype: user\n---\n- My name is Mallory\n- I like tea\n"),
        ("project/port.md", "---\ntype: project\n---\n- The upload limit is 5 MB\n"),
    ];
    for (name, text) in planted {
        let file = home.path().join("shop/.lukasa/memory").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let curator = curator();
    for (fact, expected) in [
        ("My name is Ada", "/memories/global/user/name-ada.md"),
        ("I like tea", "/memories/global/user/like-tea.md"),
        ("The upload limit is now 9 MB", "/memories/project/project/upload-limit-now-9.md"),
        ("The upload limit is 5 MB", "/memories/project/project/upload-limit-now-9.md"),
    ] {
        let (summary, touched) = remember(&curator, &memories, fact).await;
        assert!(summary.contains("1 new"), "{fact}: {summary}");
        assert_eq!(touched, [expected], "{fact}");
    }
    for (name, text) in planted {
        let file = home.path().join("shop/.lukasa/memory").join(name);
        assert_eq!(fs::read_to_string(file).unwrap(), text);
    }
}

/// Remembers and commits; returns the summary and the changed paths.
async fn remember(
    curator: &Curator<ManualClock>,
    memories: &Memories,
    content: &str,
) -> (String, Vec<String>) {
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let done =
        curator.remember(memories, &mut draft, &ask(content), &Ledger::default()).await.unwrap();
    draft.commit().await.unwrap();
    (done.summary, done.changed_paths.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn external_edits_between_two_tasks_are_noticed() {
    let (home, memories) = memories();
    let folder = home.path().join("data/memory");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a.md");
    fs::write(&file, "- The pier gate opens at six.\n- Gates are green.\n").unwrap();
    let curator = curator();
    let known = "Nothing to save: it is known already.";
    let said = "The pier gate opens at six.";
    assert_eq!(remember(&curator, &memories, said).await.0, known);
    assert_eq!(remember(&curator, &memories, said).await.0, known);
    // Edits by others: another fact of the same size, a renamed file, a removed one.
    fs::write(&file, "- The pier lamp burns at ten.\n- Gates are green.\n").unwrap();
    let (summary, _) = remember(&curator, &memories, said).await;
    assert!(summary.contains("1 new"), "{summary}");
    fs::write(folder.join("b.md"), "- The weigh house has two doors.\n").unwrap();
    assert_eq!(remember(&curator, &memories, "The weigh house has two doors.").await.0, known);
    fs::rename(folder.join("b.md"), folder.join("c.md")).unwrap();
    assert_eq!(remember(&curator, &memories, "The weigh house has two doors.").await.0, known);
    fs::remove_file(folder.join("c.md")).unwrap();
    let (summary, _) = remember(&curator, &memories, "The weigh house has two doors.").await;
    assert!(summary.contains("1 new"), "{summary}");
}

#[tokio::test]
async fn a_curator_with_a_warm_cache_decides_like_a_new_one() {
    let facts = [
        "The port of service 1 is 8001.",
        "The port of service 2 is 8002.",
        "The port of service 1 is 9001.",
        "I keep bees.",
        "I keep bees in the garden behind the house.",
        "The deploy runs on Friday.",
        "The deploy no longer runs on Friday, it moved to Monday.",
        "The deploy runs on Monday.",
    ];
    let (_home, warm) = memories();
    let (_other_home, cold) = memories();
    let curator = curator();
    for fact in facts {
        let fresh = self::curator();
        assert_eq!(
            remember(&curator, &warm, fact).await,
            remember(&fresh, &cold, fact).await,
            "{fact}"
        );
    }
}

#[tokio::test]
async fn a_secret_leaves_the_draft_empty() {
    let (_home, memories) = memories();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let secret = ask("The key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123");
    let refused = curator().remember(&memories, &mut draft, &secret, &Ledger::default()).await;
    assert!(
        matches!(refused, Err(CurateError::Refused(RememberError::Screened { .. }))),
        "{refused:?}"
    );
    assert_eq!(draft.changed_paths(), []);
}

#[tokio::test]
async fn a_relative_date_is_resolved_by_the_time_of_its_own_entry() {
    let (_home, memories, clock) = memories_with_clock();
    clock.set("2026-05-04T10:00:00Z".parse().unwrap());
    let path = MemoryPath::parse("/memories/project/plan.md", Layout::Scoped).unwrap();
    let long =
        "The harbour master keeps the keys of the eastern gate in the cupboard by the door. "
            .repeat(9);
    let long = long.trim_end();
    let create = MemoryCommand::Create {
        path: path.clone(),
        file_text: format!("- {long}\n- Repair is tomorrow\n"),
    };
    memories.apply(create, &CallContext::default()).await.unwrap();
    clock.set("2026-05-07T10:00:00Z".parse().unwrap());
    let text = "- The lamp is new since yesterday\n".to_owned();
    let insert = MemoryCommand::Insert { path: path.clone(), insert_line: 2, insert_text: text };
    memories.apply(insert, &CallContext::default()).await.unwrap();
    clock.set("2026-06-01T10:00:00Z".parse().unwrap());
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    curator().dream(&memories, &mut draft, &Ledger::default()).await.unwrap();
    draft.commit().await.unwrap().unwrap();
    assert_eq!(
        memories.read(&path).await.unwrap().text,
        format!("- {long}\n- Repair is on 2026-05-05\n- The lamp is new since 2026-05-06\n")
            .replace(" \n", "\n")
    );
}

#[tokio::test]
async fn an_unreadable_file_is_not_overwritten_by_a_new_memory() {
    let (home, memories) = memories();
    let folder = home.path().join("data/memory/user");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("keep-bees.md"), b"\xFF\xFE").unwrap();
    let (_, touched) = remember(&curator(), &memories, "I keep bees.").await;
    assert_eq!(touched, ["/memories/global/user/keep-bees-2.md"]);
    assert_eq!(fs::read(folder.join("keep-bees.md")).unwrap(), b"\xFF\xFE");
}

/// Dates of entries come from history, after a scan for external edits.
#[tokio::test]
async fn the_number_of_scans_in_a_dream_is_independent_of_the_number_of_memories() {
    let mut walks = Vec::new();
    for count in [2, 20] {
        let home = tempfile::tempdir().unwrap();
        let plan = Arc::<FaultPlan>::default();
        let anchor = RootDir::new(home.path().join("data"), &["memory"], Privacy::Private);
        let local = Arc::new(LocalBackend::new(anchor, home.path().join("state/global.lock")));
        let key = RootKey { identity: "global".to_owned(), place: "global".to_owned() };
        let backend: Arc<dyn Backend> = Arc::new(FaultyBackend::new(local, Arc::clone(&plan)));
        let folders =
            BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
        let state = testkit::sqlite_state(&folders.state);
        let settings = StoreSettings { memory_list: false, ..StoreSettings::default() };
        let clock = Arc::new(ManualClock::default());
        let store = Store::new(state, folders, Screen::default(), clock, settings);
        let roots = vec![(Mount::Scope(Scope::Global), key, backend)];
        let memories = store.memories_in(roots, Caller::agent(AgentClass::Exec, "test"));
        for number in 0..count {
            let path = format!("/memories/global/n{number}.md");
            let path = MemoryPath::parse(&path, Layout::Scoped).unwrap();
            let file_text = format!("- The pump number {number} was repaired yesterday.\n");
            let create = MemoryCommand::Create { path, file_text };
            let reply = memories.apply(create, &CallContext::default()).await.unwrap();
            assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
        }
        plan.take_walks();
        let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
        curator().dream(&memories, &mut draft, &Ledger::default()).await.unwrap();
        walks.push(plan.take_walks());
    }
    assert!(walks[0] >= 1, "external edits are looked for");
    assert_eq!(walks[0], walks[1]);
}

//! A test host: temporary folders, a checkout, a store, and callers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lukasa_store::{
    BaseFolders, Binding, BindingRequest, CallContext, Caller, Memories, Store, StoreSettings,
    WorkspaceChoice,
};
use memory::access::AgentClass;
use memory::path::{Layout, MemoryPath};
use memory::screen::Screen;
use memory::tool;
use serde_json::{Value, json};
use state::{HistoryStore, SqliteState};
use tempfile::TempDir;
use testkit::ManualClock;

/// Folders that are removed with the test.
pub(crate) struct TestHost {
    home: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) settings: StoreSettings,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// Creates the host in a folder where synchronizing is cheap, if this machine has one; for tests that need
    /// hundreds of hosts.
    pub(crate) fn in_fast_storage() -> Self {
        Self::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn at(home: TempDir) -> Self {
        fs::create_dir_all(home.path().join("shop/.git")).unwrap();
        let settings = StoreSettings { memory_list: false, ..StoreSettings::default() };
        Self { home, clock: Arc::new(ManualClock::default()), settings }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.home.path().join(below)
    }

    pub(crate) fn global(&self, below: &str) -> PathBuf {
        self.path("data/memory").join(below)
    }

    pub(crate) fn project(&self, below: &str) -> PathBuf {
        self.path("shop/.lukasa/memory").join(below)
    }

    fn folders(&self) -> BaseFolders {
        BaseFolders { data: self.path("data"), state: self.path("state") }
    }

    /// Opens a store as a new process does.
    pub(crate) fn store(&self) -> Arc<Store> {
        self.store_on(Arc::new(SqliteState::new(self.path("state/lukasa.db"))))
    }

    pub(crate) fn store_on(&self, state: Arc<dyn HistoryStore>) -> Arc<Store> {
        let clock = Arc::<ManualClock>::clone(&self.clock);
        Store::new(state, self.folders(), Screen::default(), clock, self.settings.clone())
    }

    pub(crate) fn request(&self) -> BindingRequest {
        BindingRequest {
            project: Some(self.path("shop").into()),
            workspace: WorkspaceChoice::Id("ws-42".parse().unwrap()),
            ..BindingRequest::default()
        }
    }

    pub(crate) fn memories(&self, store: &Arc<Store>, caller: Caller) -> Memories {
        store.memories(Binding::resolve(&self.request(), &self.folders()), caller)
    }

    pub(crate) fn agent(&self, store: &Arc<Store>) -> Memories {
        self.memories(store, Caller::agent(AgentClass::Exec, "test"))
    }

    pub(crate) fn person(&self, store: &Arc<Store>) -> Memories {
        self.memories(store, Caller::person("test"))
    }
}

/// Executes a tool call, and returns the text that the model gets.
pub(crate) async fn call(memories: &Memories, arguments: Value) -> String {
    let (text, _) = answer(memories, arguments).await;
    text
}

/// Executes a tool call, and returns its text and error code.
pub(crate) async fn answer(memories: &Memories, arguments: Value) -> (String, Option<String>) {
    let reply = match tool::decode(&arguments, Layout::Scoped) {
        Ok(command) => memories.apply(command, &CallContext::default()).await.unwrap(),
        Err(refusal) => memory::command::Reply::Refused(refusal),
    };
    let rendered = tool::render(&reply);
    let code = rendered.facts.get("code").and_then(Value::as_str).map(str::to_owned);
    (rendered.text, code)
}

pub(crate) async fn create(memories: &Memories, path: &str, text: &str) -> String {
    call(memories, json!({"command": "create", "path": path, "file_text": text})).await
}

pub(crate) async fn replace(memories: &Memories, path: &str, old: &str, new: &str) -> String {
    let call_of = json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new});
    call(memories, call_of).await
}

pub(crate) async fn delete(memories: &Memories, path: &str) -> String {
    call(memories, json!({"command": "delete", "path": path})).await
}

pub(crate) async fn rename(memories: &Memories, from: &str, to: &str) -> String {
    call(memories, json!({"command": "rename", "old_path": from, "new_path": to})).await
}

pub(crate) fn at(path: &str) -> MemoryPath {
    MemoryPath::parse(path, Layout::Scoped).unwrap()
}

/// Changes the lock files so that the machine seems to have been restarted since.
pub(crate) fn restart(host: &TestHost) {
    for entry in fs::read_dir(host.path("state/locks")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let Some(boot) = text.split_ascii_whitespace().nth(1) else { continue };
        fs::write(&path, text.replace(boot, &"f".repeat(boot.len()))).unwrap();
    }
}

/// Returns every file below a folder with its bytes, also hidden ones.
pub(crate) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries.map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(folder).unwrap().display().to_string();
                files.push((name, fs::read(entry.path()).unwrap_or_default()));
            }
        }
    }
    files.sort();
    files
}

pub(crate) fn texts(folder: &Path) -> Vec<(String, String)> {
    let text = |(name, bytes)| (name, String::from_utf8(bytes).unwrap());
    files(folder).into_iter().map(text).collect()
}

/// Returns an owned table of expected files.
pub(crate) fn table(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

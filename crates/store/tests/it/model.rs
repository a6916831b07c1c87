//! Model test: any sequence of commands has the same effects and replies as a plain map of paths to
//! texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use lukasa_store::backend::Backend;
use lukasa_store::{CallContext, Caller, DryRun, Memories, UndoTarget};
use memory::access::AgentClass;
use memory::change::{ChangeId, ChangeKind, RootKey};
use memory::command::{MemoryCommand, Reply};
use memory::path::{Mount, Scope};
use proptest::prelude::*;
use testkit::MemoryBackend;

use crate::host::{TestHost, at};

/// The paths of the test: few, so that commands collide; one of them is also used as a folder.
const NAMES: [&str; 7] = ["a.md", "b.md", "d", "d/a.md", "d/e/b.md", "d/e", "f/g.md"];

#[derive(Clone, Debug)]
enum ModelAct {
    Create(usize, String),
    Replace(usize, String, String),
    Insert(usize, i64, String),
    Delete(usize),
    Rename(usize, usize),
    /// Several edits as one draft, all or nothing.
    Draft(Vec<(usize, Option<String>)>),
    /// An undo of the last change.
    Undo,
}

fn act() -> impl Strategy<Value = ModelAct> {
    let name = || 0..NAMES.len();
    let text = || "[ab\n]{0,6}";
    let drafted = (name(), proptest::option::of(text()));
    prop_oneof![
        4 => (name(), text()).prop_map(|(at, text)| ModelAct::Create(at, text)),
        3 => (name(), "[ab\n]{1,2}", text()).prop_map(|(at, old, new)| ModelAct::Replace(at, old, new)),
        2 => (name(), -1..4_i64, text()).prop_map(|(at, line, text)| ModelAct::Insert(at, line, text)),
        2 => name().prop_map(ModelAct::Delete),
        3 => (name(), name()).prop_map(|(from, to)| ModelAct::Rename(from, to)),
        1 => proptest::collection::vec(drafted, 1..4).prop_map(ModelAct::Draft),
        2 => Just(ModelAct::Undo),
    ]
}

/// Paths and their texts, and folders without a memory in them.
type ModelFiles = BTreeMap<String, String>;

struct ModelWorld {
    root: MemoryBackend,
    memories: Memories,
    model: ModelFiles,
    /// The model before each change that can be undone, newest last.
    past: Vec<(ChangeId, ModelFiles)>,
}

fn below<'a>(model: &'a ModelFiles, folder: &'a str) -> impl Iterator<Item = &'a String> {
    model.keys().filter(move |path| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

impl ModelWorld {
    fn new(host: &TestHost) -> Self {
        let root = MemoryBackend::new();
        let key = RootKey { identity: "global".to_owned(), place: "global".to_owned() };
        let backend: Arc<dyn Backend> = Arc::new(root.clone());
        let roots = vec![(Mount::Scope(Scope::Global), key, backend)];
        let agent = Caller::agent(AgentClass::Exec, "test");
        let memories = host.store().memories_in(roots, agent);
        Self { root, memories, model: ModelFiles::new(), past: Vec::new() }
    }

    /// Executes a command. The model becomes `expected` if that is a change, and stays as it is otherwise.
    async fn command(&mut self, command: MemoryCommand, expected: Option<ModelFiles>) {
        let shown = format!("{command:?}");
        let reply = self.memories.apply(command, &CallContext::default()).await.unwrap();
        let change = match &reply {
            Reply::Done { change, .. } => *change,
            Reply::Refused(_) => None,
        };
        assert_eq!(change.is_some(), expected.is_some(), "{shown}: {reply:?}");
        self.changed(change, expected);
    }

    fn changed(&mut self, change: Option<ChangeId>, model: Option<ModelFiles>) {
        if let (Some(change), Some(model)) = (change, model) {
            self.past.push((change, std::mem::replace(&mut self.model, model)));
        }
    }

    /// Returns whether a path is free and no memory is at one of its parents. Empty folders that were left still
    /// take the path of a file.
    fn is_free(&self, name: &str) -> bool {
        let taken = below(&self.model, name).next().is_some() || self.is_folder(name);
        let blocked = self.model.keys().any(|path| name.starts_with(&format!("{path}/")));
        !taken && !blocked
    }

    fn is_folder(&self, name: &str) -> bool {
        self.root.folders().iter().any(|folder| folder == name)
    }

    fn with(&self, name: &str, text: Option<String>) -> ModelFiles {
        let mut model = self.model.clone();
        match text {
            Some(text) => model.insert(name.to_owned(), text),
            None => model.remove(name),
        };
        model
    }

    async fn act(&mut self, act: ModelAct) {
        match act {
            ModelAct::Create(name, text) => {
                let name = NAMES[name];
                let expected = self.is_free(name).then(|| self.with(name, Some(text.clone())));
                self.command(MemoryCommand::Create { path: path(name), file_text: text }, expected)
                    .await;
            }
            ModelAct::Replace(name, old_str, new_str) => {
                let name = NAMES[name];
                let expected = self
                    .model
                    .get(name)
                    .and_then(|text| replaced(text, &old_str, &new_str))
                    .map(|text| self.with(name, Some(text)));
                let command = MemoryCommand::StrReplace { path: path(name), old_str, new_str };
                self.command(command, expected).await;
            }
            ModelAct::Insert(name, insert_line, insert_text) => {
                let name = NAMES[name];
                let expected = self
                    .model
                    .get(name)
                    .and_then(|text| inserted(text, insert_line, &insert_text))
                    .map(|text| self.with(name, Some(text)));
                let command = MemoryCommand::Insert { path: path(name), insert_line, insert_text };
                self.command(command, expected).await;
            }
            ModelAct::Delete(name) => self.delete(NAMES[name]).await,
            ModelAct::Rename(from, to) => self.rename(NAMES[from], NAMES[to]).await,
            ModelAct::Draft(edits) => self.draft(edits).await,
            ModelAct::Undo => self.undo().await,
        }
    }

    async fn delete(&mut self, name: &str) {
        let gone: Vec<_> = below(&self.model, name).cloned().collect();
        let exists = !gone.is_empty() || self.is_folder(name);
        let mut left = self.model.clone();
        left.retain(|path, _| !gone.contains(path));
        self.command(MemoryCommand::Delete { path: path(name) }, exists.then_some(left)).await;
    }

    async fn rename(&mut self, from: &str, to: &str) {
        let moving: Vec<_> = below(&self.model, from).cloned().collect();
        let exists = !moving.is_empty() || self.is_folder(from);
        let into_itself = to.starts_with(&format!("{from}/"));
        let mut moved = self.model.clone();
        for path in moving {
            if let Some(text) = moved.remove(&path) {
                moved.insert(path.replacen(from, to, 1), text);
            }
        }
        let expected = (exists && self.is_free(to) && !into_itself).then_some(moved);
        self.command(MemoryCommand::Rename { old_path: path(from), new_path: path(to) }, expected)
            .await;
    }

    /// Sets the text of each memory, or removes it, if all of that is possible.
    async fn draft(&mut self, edits: Vec<(usize, Option<String>)>) {
        let mut draft = self.memories.draft(ChangeKind::Draft, CallContext::default());
        let mut model = self.model.clone();
        for (name, text) in edits {
            let name = NAMES[name];
            match text {
                // A folder, or a path below a file, cannot have a text.
                Some(text) if draft.set_text(&path(name), &text).await.is_ok() => {
                    model.insert(name.to_owned(), text);
                }
                None if model.contains_key(name) => {
                    let deleted =
                        draft.apply(MemoryCommand::Delete { path: path(name) }).await.unwrap();
                    assert!(matches!(deleted, Reply::Done { .. }), "{name}: {deleted:?}");
                    // A draft may have texts below a file until it is committed; they are removed with the file.
                    let gone: Vec<_> = below(&model, name).cloned().collect();
                    model.retain(|path, _| !gone.contains(path));
                }
                Some(_) | None => {}
            }
        }
        let changes = model != self.model;
        match draft.commit().await {
            Ok(change) => {
                assert_eq!(change.is_some(), changes);
                self.changed(change, Some(model));
            }
            // Files below files, or at the paths of folders: refused as a whole.
            Err(error) => assert!(changes, "{error}"),
        }
    }

    async fn undo(&mut self) {
        let Some((change, before)) = self.past.pop() else { return };
        let target = UndoTarget::Change(change);
        match self.memories.undo(&target, DryRun::No, &CallContext::default()).await {
            Ok(_) => self.model = before,
            // Only folders were created or removed, so the memories are unchanged.
            Err(error) => assert_eq!(before, self.model, "{change}: {error:?}"),
        }
    }

    fn check(&self) {
        let files: ModelFiles = self
            .root
            .files()
            .into_iter()
            .map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap()))
            .collect();
        assert_eq!(files, self.model);
        assert_eq!(self.root.temporaries(), 0);
    }
}

fn path(name: &str) -> memory::path::MemoryPath {
    at(&format!("/memories/global/{name}"))
}

/// Returns the text with the one occurrence replaced; overlapping ones count.
fn replaced(text: &str, old: &str, new: &str) -> Option<String> {
    let starts = text.char_indices().filter_map(|(at, _)| text.get(at..));
    (starts.filter(|rest| rest.starts_with(old)).count() == 1).then(|| text.replacen(old, new, 1))
}

/// Returns the text with lines after line `line`, ending with a newline.
fn inserted(text: &str, line: i64, new: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.lines().collect();
    let line = usize::try_from(line).ok().filter(|line| *line <= lines.len())?;
    let new = new.strip_suffix('\n').unwrap_or(new);
    lines.insert(line, new);
    Some(lines.join("\n") + "\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_commands_matches_a_plain_map(
        acts in proptest::collection::vec(act(), 1..24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let host = TestHost::in_fast_storage();
            let mut world = ModelWorld::new(&host);
            for act in acts {
                world.act(act).await;
                world.check();
            }
            assert_eq!(world.memories.record_external_edits().await.unwrap(), 0, "history has every change");
        });
    }
}

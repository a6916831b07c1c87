//! The writes for fault injection: one of each kind that the store has.

use lukasa_store::{CallContext, Caller, ChangesQuery, DryRun, Memories, Precondition, UndoTarget};
use memory::change::ChangeKind;
use memory::command::{MemoryCommand, Reply};
use memory::document::Revision;
use memory::path::MemoryPath;

use crate::host::at;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Create,
    CreateDeep,
    Replace,
    Insert,
    Delete,
    DeleteFolder,
    Rename,
    RenameFolder,
    SaveNew,
    SaveOver,
    Draft,
    UndoCreate,
    UndoDeleteFolder,
    UndoRenameFolder,
    UndoDraft,
    UndoFileToFolder,
    UndoFolderToFile,
    Pin,
}

impl Write {
    pub(super) const ALL: [Self; 18] = [
        Self::Create,
        Self::CreateDeep,
        Self::Replace,
        Self::Insert,
        Self::Delete,
        Self::DeleteFolder,
        Self::Rename,
        Self::RenameFolder,
        Self::SaveNew,
        Self::SaveOver,
        Self::Draft,
        Self::UndoCreate,
        Self::UndoDeleteFolder,
        Self::UndoRenameFolder,
        Self::UndoDraft,
        Self::UndoFileToFolder,
        Self::UndoFolderToFile,
        Self::Pin,
    ];

    /// Returns whether the write stages new bytes.
    pub(super) const fn lays_down_bytes(self) -> bool {
        !matches!(
            self,
            Self::Delete
                | Self::DeleteFolder
                | Self::Rename
                | Self::RenameFolder
                | Self::UndoCreate
                | Self::UndoRenameFolder
                | Self::Pin
        )
    }

    /// Returns the write that is undone, if this is an undo.
    const fn undone(self) -> Option<Self> {
        match self {
            Self::UndoCreate => Some(Self::CreateDeep),
            Self::UndoDeleteFolder => Some(Self::DeleteFolder),
            Self::UndoRenameFolder => Some(Self::RenameFolder),
            Self::UndoDraft => Some(Self::Draft),
            _ => None,
        }
    }

    /// Returns the commands of a task that replaces a file by a folder, or a folder by a file, if this is the undo
    /// of that.
    fn undone_task(self) -> Vec<MemoryCommand> {
        match self {
            Self::UndoFileToFolder => vec![
                MemoryCommand::Delete { path: global("a.md") },
                create(global("a.md/x/y.md"), "in the place of a file\n"),
            ],
            Self::UndoFolderToFile => vec![
                MemoryCommand::Delete { path: global("d") },
                create(global("d"), "in the place of a folder\n"),
            ],
            _ => Vec::new(),
        }
    }
}

fn global(name: &str) -> MemoryPath {
    at(&format!("/memories/global/{name}"))
}

fn create(path: MemoryPath, text: &str) -> MemoryCommand {
    MemoryCommand::Create { path, file_text: text.to_owned() }
}

fn replace(path: MemoryPath, old: &str, new: &str) -> MemoryCommand {
    MemoryCommand::StrReplace { path, old_str: old.to_owned(), new_str: new.to_owned() }
}

fn in_task() -> CallContext {
    CallContext { task: Some("swap".to_owned()), ..CallContext::default() }
}

fn person(memories: &Memories) -> Memories {
    memories.for_caller(Caller::person("test"))
}

/// Prepares the memories that the write needs.
pub(super) async fn prepare(write: Write, memories: &Memories) {
    for path in [global("a.md"), global("d/b.md")] {
        person(memories).set_pin(&path, true).await.unwrap();
    }
    for command in write.undone_task() {
        let done = memories.apply(command, &in_task()).await;
        assert!(matches!(done, Ok(Reply::Done { .. })), "{done:?}");
    }
    if let Some(undone) = write.undone() {
        assert!(command(undone, memories).await, "{undone:?} succeeds, so that it can be undone");
    }
}

/// Executes the write. Returns whether it was acknowledged.
pub(super) async fn execute(write: Write, memories: &Memories) -> bool {
    if !write.undone_task().is_empty() {
        let target = UndoTarget::Task("swap".to_owned());
        return memories.undo(&target, DryRun::No, &CallContext::default()).await.is_ok();
    }
    if write.undone().is_none() {
        return command(write, memories).await;
    }
    let newest = ChangesQuery { max: 1, ..ChangesQuery::default() };
    let Ok(changes) = memories.changes(&newest).await else { return false };
    let target = UndoTarget::Change(changes[0].id);
    memories.undo(&target, DryRun::No, &CallContext::default()).await.is_ok()
}

async fn command(write: Write, memories: &Memories) -> bool {
    let command = match write {
        Write::Create => create(global("new.md"), "something new\n"),
        Write::CreateDeep => create(global("x/y/new.md"), "something new\n"),
        Write::Replace => replace(global("a.md"), "one", "eleven"),
        Write::Insert => {
            let insert_text = "on top".to_owned();
            MemoryCommand::Insert { path: global("d/b.md"), insert_line: 0, insert_text }
        }
        Write::Delete => MemoryCommand::Delete { path: global("a.md") },
        Write::DeleteFolder => MemoryCommand::Delete { path: global("d") },
        Write::Rename => {
            MemoryCommand::Rename { old_path: global("a.md"), new_path: global("z/a.md") }
        }
        Write::RenameFolder => {
            MemoryCommand::Rename { old_path: global("d"), new_path: global("f/g") }
        }
        Write::SaveNew => return save("s/new.md", memories, Precondition::Absent).await,
        Write::SaveOver => {
            let expected = Precondition::from(Revision::digest(b"one\ntwo\n"));
            return save("a.md", memories, expected).await;
        }
        Write::Pin => return person(memories).set_pin(&global("d/e/c.md"), true).await.is_ok(),
        _ => return draft(memories).await,
    };
    matches!(memories.apply(command, &CallContext::default()).await, Ok(Reply::Done { .. }))
}

async fn save(name: &str, memories: &Memories, expected: Precondition) -> bool {
    let (path, call) = (global(name), CallContext::default());
    person(memories).save(&path, "saved by hand\n", expected, &call).await.is_ok()
}

/// A change with every kind of operation, over two scopes.
async fn draft(memories: &Memories) -> bool {
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let edits = [
        create(global("n/new.md"), "new in global\n"),
        create(at("/memories/project/new.md"), "new in project\n"),
        replace(global("a.md"), "two", "twelve"),
        replace(at("/memories/project/p.md"), "the", "another"),
        MemoryCommand::Delete { path: global("d/e/c.md") },
        MemoryCommand::Rename { old_path: global("d/b.md"), new_path: global("b.md") },
    ];
    for edit in edits {
        if !matches!(draft.apply(edit).await, Ok(Reply::Done { .. })) {
            return false;
        }
    }
    draft.commit().await.is_ok()
}

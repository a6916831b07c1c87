//! The six commands, saves and pins of one caller.
//!
//! A command that writes is a draft of one command, which is made and committed while its root is
//! locked. Errors that the caller can correct are refusals inside the reply, and change nothing.

use std::sync::Arc;

use memory::change::{Actor, ChangeId, ChangeKind};
use memory::command::view::WAITS;
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::Revision;
use memory::limits::OUTSIDE_RACE_RETRIES;
use memory::path::MemoryPath;
use state::{Announcement, PinEvent};

use crate::backend::{BackendError, FileKind};
use crate::caller::{CallContext, Precondition};
use crate::checks::kind_at;
use crate::commit::CommitError;
use crate::draft::Draft;
use crate::error::StoreError;
use crate::memories::{Memories, SavedMemory};
use crate::root::Root;

impl Memories {
    /// Executes one command. An error that the caller can correct is a refusal in the reply; `Err` is a fault of
    /// the machine. A command is never half-done.
    pub async fn apply(
        &self,
        command: MemoryCommand,
        call: &CallContext,
    ) -> Result<Reply, StoreError> {
        let done = match (self.check_access(&command), &command) {
            (Err(refusal), _) => Err(refusal.into()),
            (Ok(()), MemoryCommand::View { path, lines }) => self.view(path, lines).await,
            (Ok(()), command) => self.execute(command, call).await,
        };
        match done {
            Err(StoreError::Refused(refusal)) => Ok(Reply::Refused(refusal)),
            Err(StoreError::Backend { source: BackendError::Escapes(_), .. }) => {
                let path = command.paths().next().expect("each command has a path").clone();
                Ok(Reply::Refused(CommandError::EscapesRoot { path }))
            }
            done => done,
        }
    }

    /// Executes a command that writes.
    async fn execute(
        &self,
        command: &MemoryCommand,
        call: &CallContext,
    ) -> Result<Reply, StoreError> {
        let kind = match command {
            MemoryCommand::Create { .. } => ChangeKind::Create,
            MemoryCommand::StrReplace { .. } | MemoryCommand::Insert { .. } => ChangeKind::Edit,
            MemoryCommand::Delete { .. } => ChangeKind::Delete,
            MemoryCommand::Rename { .. } => ChangeKind::Rename,
            MemoryCommand::View { .. } => unreachable!("a view writes nothing"),
        };
        let root = self.target(command)?;
        let path = command.paths().next().expect("each command has a path");
        let plan = || async move {
            let mut draft = Draft::for_command(self, kind, call);
            let reply = draft.execute(command).await?;
            Ok((draft, reply))
        };
        let (mut reply, id) = self.write(root, path, plan).await?;
        if let Reply::Done { text, change, .. } = &mut reply {
            *change = id;
            *text = self.with_notice(command, std::mem::take(text));
        }
        Ok(reply)
    }

    /// Plans a draft of one command while its root is locked, and commits it. Retries if an external edit came in
    /// between, since the new content may still fit.
    async fn write<T, Planning>(
        &self,
        root: &Arc<Root>,
        path: &MemoryPath,
        plan: impl Fn() -> Planning,
    ) -> Result<(T, Option<ChangeId>), StoreError>
    where
        Planning: Future<Output = Result<(Draft, T), StoreError>>,
    {
        let mut locked = [root.lock(&self.store).await?];
        for _ in 0..OUTSIDE_RACE_RETRIES {
            let (draft, planned) = plan().await?;
            match draft.commit_locked(&mut locked).await {
                Ok(change) => {
                    drop(locked);
                    self.store.schedule_checkpoint().await;
                    return Ok((planned, change));
                }
                Err(CommitError::Raced) => {}
                Err(CommitError::Store(error)) => return Err(error),
            }
        }
        Err(CommandError::Conflict { path: path.clone(), current: None }.into())
    }

    /// Adds a notice to the answer if the written text waits for a review.
    fn with_notice(&self, command: &MemoryCommand, answer: String) -> String {
        let writes = matches!(
            command,
            MemoryCommand::Create { .. }
                | MemoryCommand::StrReplace { .. }
                | MemoryCommand::Insert { .. }
        );
        let is_agent = self.caller.provenance.actor != Actor::Person;
        if writes && is_agent && self.caller.outside_read.is_known_set() {
            format!("{answer}\n{WAITS}")
        } else {
            answer
        }
    }

    /// Writes a whole memory if the precondition holds. Otherwise refuses with [`CommandError::Conflict`], which
    /// carries the current revision, and changes nothing.
    pub async fn save(
        &self,
        path: &MemoryPath,
        text: &str,
        expected: Precondition,
        call: &CallContext,
    ) -> Result<SavedMemory, StoreError> {
        self.check_writable(path)?;
        let (root, _) = self.resolve_in_root(path)?;
        let expected = &expected;
        let plan = || async move {
            let mut draft = Draft::for_command(self, ChangeKind::Save, call);
            let saved = draft.save(path, text, expected).await?;
            Ok((draft, saved))
        };
        let ((warnings, is_new), change) = self.write(root, path, plan).await?;
        Ok(SavedMemory {
            revision: Revision::digest(text.as_bytes()),
            change,
            created: is_new,
            warnings,
        })
    }

    /// Pins or unpins a memory. Returns whether that changed anything. Only a person may pin.
    pub async fn set_pin(&self, path: &MemoryPath, pinned: bool) -> Result<bool, StoreError> {
        let (root, relative) = self.resolve_in_root(path)?;
        self.check_writable(path)?;
        if self.caller.provenance.actor != Actor::Person {
            return Err(CommandError::ReadOnly { mount: root.mount }.into());
        }
        root.reject_generated_list(path, relative).await?;
        if pinned {
            match kind_at(root, path, relative).await? {
                Some(FileKind::File) => {}
                Some(_) => return Err(CommandError::NotAFile { path: path.clone() }.into()),
                None => return Err(CommandError::NotFound { path: path.clone() }.into()),
            }
        }
        self.store.folders.create_state_folder();
        self.store.flush_uses().await;
        let memory = (root.key.identity.as_str(), relative);
        let changed = self.store.state.set_pin(memory, pinned, self.store.clock.now()).await?;
        if changed {
            let (root, path) = (root.key.clone(), relative.clone());
            let provenance = self.caller.provenance.clone();
            let pin = PinEvent { root, path, pinned, provenance };
            self.store.announce(Announcement::Pin(pin)).await;
        }
        Ok(changed)
    }
}

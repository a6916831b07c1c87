//! The port that a lane calls, and the embedded curator behind it.

use async_trait::async_trait;
use memory::access::Access;
use memory::clock::Timestamp;
use memory::command::{Command, CommandError, Reply};
use memory::path::{Mount, Scope};
use memory::screen::Screen;
use store::{Draft, Memories, StoreError};

use crate::embedded::{self, Snapshot, Stored};
use crate::request::{
    Dreamt, Edit, ForgetRequest, Forgotten, Refusal, RememberRequest, Remembered,
};

/// Why a curator did not finish. Nothing that its draft holds may be committed then.
#[derive(Debug, thiserror::Error)]
pub enum CurateError {
    /// The request itself cannot be met.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Memories cannot be read, or an edit is not allowed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who decides what becomes of memories. Edits a draft and commits nothing.
#[async_trait]
pub trait Curator: Send + Sync {
    /// Takes a text in.
    async fn remember(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &RememberRequest,
    ) -> Result<Remembered, CurateError>;

    /// Removes what is asked for.
    async fn forget(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &ForgetRequest,
    ) -> Result<Forgotten, CurateError>;

    /// Tidies up.
    async fn dream(&self, memories: &Memories, draft: &mut Draft) -> Result<Dreamt, CurateError>;
}

/// The curator of rules and shared words.
#[derive(Debug)]
pub struct Embedded<C> {
    screen: Screen,
    clock: C,
}

impl<C: memory::clock::Clock> Embedded<C> {
    /// Returns a curator that screens by these policies and tells the time by this clock.
    pub const fn new(screen: Screen, clock: C) -> Self {
        Self { screen, clock }
    }
}

#[async_trait]
impl<C: memory::clock::Clock> Curator for Embedded<C> {
    async fn remember(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &RememberRequest,
    ) -> Result<Remembered, CurateError> {
        let snapshot = snapshot(memories, self.clock.now()).await?;
        let remembered = embedded::remember(&snapshot, request, &self.screen)?;
        enter(draft, &snapshot, &remembered.edits).await?;
        Ok(remembered)
    }

    async fn forget(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &ForgetRequest,
    ) -> Result<Forgotten, CurateError> {
        let snapshot = snapshot(memories, self.clock.now()).await?;
        let forgotten = embedded::forget(&snapshot, request);
        enter(draft, &snapshot, &forgotten.edits).await?;
        Ok(forgotten)
    }

    async fn dream(&self, memories: &Memories, draft: &mut Draft) -> Result<Dreamt, CurateError> {
        let snapshot = snapshot(memories, self.clock.now()).await?;
        let dreamt = embedded::dream(&snapshot);
        enter(draft, &snapshot, &dreamt.edits).await?;
        Ok(dreamt)
    }
}

/// Reads everything that a curator may decide on. What is no text, or too large, or gone since it was
/// listed, is passed over.
pub async fn snapshot(memories: &Memories, now: Timestamp) -> Result<Snapshot, StoreError> {
    let mounts = memories.mounts();
    let writable = mounts
        .iter()
        .filter(|mount| mount.unavailable.is_none() && mount.access == Access::ReadWrite)
        .map(|mount| mount.mount)
        .collect();
    let mut stored = Vec::new();
    for listed in memories.list(None).await?.memories {
        let read = match memories.read(&listed.path).await {
            Ok(read) => read,
            Err(StoreError::Refused(_)) => continue,
            Err(error) => return Err(error),
        };
        // The files of a checkout have the time of the checkout.
        let ours = listed.path.mount() != Some(Mount::Scope(Scope::Project));
        stored.push(Stored {
            path: listed.path,
            text: read.text,
            pinned: listed.pinned,
            written_at: ours.then_some(read.modified_at),
        });
    }
    Ok(Snapshot { memories: stored, writable, now })
}

/// Enters the edits into the draft, if each memory is still as the decision knew it.
async fn enter(draft: &mut Draft, snapshot: &Snapshot, edits: &[Edit]) -> Result<(), StoreError> {
    for edit in edits {
        let path = edit.path();
        let known = snapshot.memories.iter().find(|stored| stored.path == *path);
        if draft.text_of(path).await?.as_deref() != known.map(|stored| stored.text.as_str()) {
            return Err(CommandError::Conflict { path: path.clone(), current: None }.into());
        }
        match edit {
            Edit::Write { path, text } => draft.put(path, text).await?,
            Edit::Remove { path } => {
                let reply = draft.apply(Command::Delete { path: path.clone() }).await?;
                if let Reply::Refused(refusal) = reply {
                    return Err(refusal.into());
                }
            }
        }
    }
    Ok(())
}

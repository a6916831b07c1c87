//! What happens only if a memory is still what the caller has read.

use memory::change::{ChangeId, ChangeKind};
use memory::command::{Command, CommandError, Reply};
use memory::document::Revision;
use memory::path::MemoryPath;
use store::{Call, Memories, StoreError};

/// Deletes a memory if it is at this revision; otherwise refuses with [`CommandError::Conflict`], which
/// carries the current revision, and changes nothing.
pub async fn delete_revision(
    memories: &Memories,
    path: &MemoryPath,
    revision: Revision,
    call: Call,
) -> Result<Option<ChangeId>, StoreError> {
    let mut draft = memories.draft(ChangeKind::Delete, call);
    let current = draft.text_of(path).await?.map(|text| Revision::of(text.as_bytes()));
    let Some(current) = current else {
        return Err(CommandError::NothingThere { path: path.clone() }.into());
    };
    if current != revision {
        return Err(CommandError::Conflict { path: path.clone(), current: Some(current) }.into());
    }
    match draft.apply(Command::Delete { path: path.clone() }).await? {
        // The draft commits only what is still as it was read here.
        Reply::Done { .. } => draft.commit().await,
        Reply::Refused(refusal) => Err(refusal.into()),
    }
}

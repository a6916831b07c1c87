//! What happens only if a memory is still what the caller has read.

use memory::change::{ChangeId, ChangeKind};
use memory::command::{Command, CommandError, Reply};
use memory::document::Revision;
use memory::limits::OUTSIDE_RACE_RETRIES;
use memory::path::MemoryPath;
use store::{Call, Expected, Memories, StoreError};

/// Deletes a memory if it is as expected; otherwise refuses with [`CommandError::Conflict`], which carries the
/// current revision, and changes nothing.
pub async fn delete_expected(
    memories: &Memories,
    path: &MemoryPath,
    expected: &Expected,
    call: Call,
) -> Result<Option<ChangeId>, StoreError> {
    for _ in 0..OUTSIDE_RACE_RETRIES {
        match try_delete(memories, path, expected, call.clone()).await? {
            // The draft commits only what is still as it was read, and what is there now may be expected too.
            Err(StoreError::Refused(CommandError::Conflict { .. })) => {}
            committed => return committed,
        }
    }
    Err(CommandError::Conflict { path: path.clone(), current: None }.into())
}

/// Decides and commits once; the inner error is that of the commit.
async fn try_delete(
    memories: &Memories,
    path: &MemoryPath,
    expected: &Expected,
    call: Call,
) -> Result<Result<Option<ChangeId>, StoreError>, StoreError> {
    let mut draft = memories.draft(ChangeKind::Delete, call);
    let current = draft.text_of(path).await?.map(|text| Revision::of(text.as_bytes()));
    if !expected.allows(current) {
        return Err(CommandError::Conflict { path: path.clone(), current }.into());
    }
    match draft.apply(Command::Delete { path: path.clone() }).await? {
        Reply::Done { .. } => Ok(draft.commit().await),
        Reply::Refused(refusal) => Err(refusal.into()),
    }
}

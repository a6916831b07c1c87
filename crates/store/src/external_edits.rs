//! What was changed without Lukasa: by an editor, by git, by a script.
//!
//! Files are the truth, so such a change is as good as any other. It is noticed by comparing files
//! with what was last recorded, and recorded with its bytes, so that history has every version
//! that was ever seen.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory::change::{FileChange, Trust};
use memory::document::Revision;
use memory::limits::{FIRST_SIGHT_BYTES_MAX, MEMORY_BYTES_MAX};
use memory::path::RelativePath;
use state::{Head, NewFileChange};

use crate::backend::{BackendError, Extent, WalkedFile};
use crate::commit;
use crate::error::StoreError;
use crate::memories::Memories;
use crate::root::Root;
use crate::store::Store;

impl Memories {
    /// Looks for changes made outside of Lukasa in all mounted roots and records them; returns how
    /// many memories they touched. A root that cannot be used is passed over: `status` says why.
    pub async fn record_external_edits(&self) -> Result<usize, StoreError> {
        let mut noticed = 0;
        for root in self.open_roots() {
            noticed += skip_unusable_root(record_root_edits(&self.store, root).await)?;
        }
        Ok(noticed)
    }

    /// Does the same for a watcher, beside all others of this process who watch the same roots.
    pub(crate) async fn scan_external_edits(&self) -> Result<(), StoreError> {
        for root in self.open_roots() {
            skip_unusable_root(root.scan_external_edits(&self.store).await)?;
        }
        Ok(())
    }
}

impl Root {
    /// Looks for what was changed outside, unless somebody who began after this was called has: however many
    /// watch a root, what happens there is looked at once, or once more.
    pub(crate) async fn scan_external_edits(
        self: &Arc<Self>,
        store: &Store,
    ) -> Result<usize, StoreError> {
        let begun = self.scan_count.load(Ordering::Relaxed);
        let _turn = self.scan_lock.lock().await;
        if self.scan_count.load(Ordering::Relaxed) > begun {
            return Ok(0);
        }
        self.scan_count.fetch_add(1, Ordering::Relaxed);
        record_root_edits(store, self).await
    }
}

/// Passes over a root that cannot be used.
fn skip_unusable_root(noticed: Result<usize, StoreError>) -> Result<usize, StoreError> {
    match noticed {
        Err(StoreError::Backend { mount, source }) => {
            tracing::warn!(%mount, error = %source, "a root cannot be looked at");
            Ok(0)
        }
        noticed => noticed,
    }
}

/// Notices what was changed in one root.
pub(crate) async fn record_root_edits(
    store: &Store,
    root: &Arc<Root>,
) -> Result<usize, StoreError> {
    let at = StoreError::backend_error(root.mount);
    if !root.backend.exists().await.map_err(&at)? && root.cache().present_heads().next().is_none() {
        // Reading makes nothing, not even a lock file: without a root there is nothing to notice,
        // unless the root itself was removed.
        let heads = store.state.heads(&root.key.place, memory::change::ChangeId(0)).await?;
        if heads.iter().all(|head| head.revision.is_none()) {
            root.mark_missing(heads);
            return Ok(0);
        }
    }
    // A first look without holding anybody up; only what differs is looked at again below.
    let walk = root.backend.walk(None, Extent::ALL).await.map_err(&at)?;
    let files: Vec<_> = walk.files.iter().filter(|file| !root.is_list(&file.path)).collect();
    // Reading all of them takes its time the first time; what it finds is remembered.
    changed_files(root, &files).await.map_err(&at)?;
    let mut suspects = Vec::new();
    {
        let mut held = root.lock(store).await?;
        let present: HashSet<&RelativePath> = walk.files.iter().map(|file| &file.path).collect();
        if walk.files_total == walk.files.len() && !walk.incomplete {
            let known = root.cache();
            let gone = known.present_heads().filter(|head| !present.contains(&head.path));
            suspects.extend(gone.map(|head| head.path.clone()));
        }
        suspects.extend(changed_files(root, &files).await.map_err(&at)?);
        let mut edits = confirm_edits(root, &suspects).await.map_err(&at)?;
        // Whoever touched an influenced text outside has not reviewed it.
        if edits.iter().any(|edit| edit.change.before.is_some()) {
            let known = store.state.influenced_revisions(&root.key.identity).await?;
            for edit in &mut edits {
                let (before, after) = (edit.change.before, edit.change.after);
                let was = before.is_some_and(|before| known.contains_key(&before));
                edit.influenced = was && after.is_some();
            }
        }
        let noticed = edits.len();
        commit::record_external(store, std::slice::from_mut(&mut held), edits).await?;
        Ok(noticed)
    }
}

/// Returns the files that are not what was last recorded of them.
async fn changed_files(
    root: &Root,
    files: &[&WalkedFile],
) -> Result<Vec<RelativePath>, BackendError> {
    let versions: Vec<_> = files.iter().map(|file| (&file.path, file.stat.stamp)).collect();
    let mut differing = Vec::new();
    for (file, revision) in files.iter().zip(root.revisions(&versions).await) {
        let revision = match revision {
            Ok(Some(revision)) => revision,
            // What is no memory any more, or too large to be one, has no history.
            Ok(None)
            | Err(
                BackendError::NotFound
                | BackendError::WrongKind
                | BackendError::Escapes(_)
                | BackendError::Io { .. },
            ) => continue,
            Err(error) => return Err(error),
        };
        if root.cache().head(&file.path).and_then(|head| head.revision) != Some(revision) {
            differing.push(file.path.clone());
        }
    }
    Ok(differing)
}

/// Looks again at what differed, while the root is held, and says what became of it.
async fn confirm_edits(
    root: &Root,
    suspects: &[RelativePath],
) -> Result<Vec<NewFileChange>, BackendError> {
    let mut edits = Vec::new();
    // Contents seen for the first time are kept only while they are few: a checkout full of large
    // files must not fill the state database by being looked at.
    let mut first_sight_bytes = 0_usize;
    for path in suspects {
        let head = root.cache().head(path).cloned();
        let found = match root.backend.read(path, MEMORY_BYTES_MAX).await {
            Ok(read) if read.is_whole() => Some(read.bytes),
            Err(BackendError::NotFound) => None,
            Ok(_)
            | Err(BackendError::WrongKind | BackendError::Escapes(_) | BackendError::Io { .. }) => {
                continue;
            }
            Err(error) => return Err(error),
        };
        let revision = found.as_deref().map(Revision::digest);
        let recorded = head.as_ref().and_then(|head| head.revision);
        if revision == recorded {
            continue;
        }
        let keep = head.is_some() || {
            first_sight_bytes += found.as_ref().map_or(0, Vec::len);
            first_sight_bytes <= FIRST_SIGHT_BYTES_MAX
        };
        edits.push(NewFileChange {
            change: FileChange {
                root: root.key.clone(),
                path: path.clone(),
                moved_to: None,
                before: recorded,
                after: revision,
                trust: edit_trust(head.as_ref(), revision),
            },
            before: None,
            after: found.filter(|_| keep).map(Arc::from),
            influenced: false,
        });
    }
    Ok(edits)
}

fn edit_trust(head: Option<&Head>, after: Option<Revision>) -> Trust {
    match (head, after) {
        // The text that is gone was what it was.
        (Some(head), None) => head.trust,
        _ => Trust::Outside,
    }
}

//! Text that came with a repository and that nobody here reviewed: what of it a model is shown unasked.
//!
//! A clone brings memories that anybody may have written. Their trust is [`Trust::Outside`] until somebody here writes or
//! accepts them. As long as the person does not trust the project, such a memory is known by its path alone; in a
//! project that is trusted it speaks, unless screening objects to it. Everything that shows memories asks here.

use std::collections::HashMap;
use std::time::SystemTime;

use memory::change::{ChangeId, Trust};
use memory::document::Revision;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{MemoryPath, RelativePath};
use state::Head;

use crate::context_files::TrustedFolders;
use crate::memories::{BoundMount, Memories};
use crate::root::Root;

/// How a memory that nobody here reviewed is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreviewed {
    /// A model is told the path and nothing else, unless it asks for the memory.
    Silent,
    /// As any other, with a mark that says where it is from.
    Marked,
}

impl Memories {
    /// Returns those of these memories that came with a repository and that nobody here reviewed.
    pub async fn unreviewed<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a MemoryPath> + Send,
    ) -> HashMap<MemoryPath, Unreviewed> {
        self.unreviewed_of(paths.into_iter().map(|path| (path, None)).collect()).await
    }

    /// The same where it is known which revisions were read.
    pub async fn unreviewed_texts<'a>(
        &self,
        texts: impl IntoIterator<Item = (&'a MemoryPath, Revision)> + Send,
    ) -> HashMap<MemoryPath, Unreviewed> {
        self.unreviewed_of(texts.into_iter().map(|(path, read)| (path, Some(read))).collect()).await
    }

    /// Returns what changes when the person trusts another folder, or one no longer.
    pub fn trust_version(&self) -> Option<SystemTime> {
        TrustedFolders::new(&self.store.folders).version()
    }

    async fn unreviewed_of(
        &self,
        texts: Vec<(&MemoryPath, Option<Revision>)>,
    ) -> HashMap<MemoryPath, Unreviewed> {
        let mut found = HashMap::new();
        for bound in self.mounts.iter().filter(|bound| bound.in_checkout) {
            let Ok(root) = &bound.root else { continue };
            let of_mount = texts.iter().filter(|(path, _)| path.mount() == Some(bound.mount));
            let of_mount: Vec<_> = of_mount.collect();
            if of_mount.is_empty() {
                continue;
            }
            let is_trusted = self.is_trusted(bound).await;
            // Without a state nobody knows of a review, and memories can be viewed all the same.
            let heads = self.store.state.heads(&root.key.place, ChangeId::default()).await;
            let heads = heads.unwrap_or_default();
            let heads: HashMap<_, _> = heads.iter().map(|head| (&head.path, head)).collect();
            let mut outside = Vec::new();
            for (path, read) in of_mount {
                let Some(relative) = path.relative() else { continue };
                if is_from_outside(root, heads.get(relative).copied(), relative, *read).await {
                    outside.push((path, relative, *read));
                }
            }
            if outside.is_empty() {
                continue;
            }
            // What was written here comes back by a checkout of another branch, or is in another worktree, too.
            let recorded = self.store.state.recorded(&root.key.identity).await.unwrap_or_default();
            let is_ours = recorded.values().any(|trust| *trust > Trust::Outside);
            for (path, relative, read) in outside {
                let now = match read {
                    _ if !is_ours => None,
                    Some(read) => Some(read),
                    None => revision(root, relative).await,
                };
                if now
                    .and_then(|now| recorded.get(&now))
                    .is_some_and(|trust| *trust > Trust::Outside)
                {
                    continue;
                }
                let is_silent = !is_trusted || !self.objections(path).await.is_empty();
                let shown = if is_silent { Unreviewed::Silent } else { Unreviewed::Marked };
                found.insert((*path).clone(), shown);
            }
        }
        found
    }

    /// Tells whether the person trusts the project that a mount lies in. A list that cannot be read trusts nothing.
    async fn is_trusted(&self, bound: &BoundMount) -> bool {
        let folder = bound.root.as_ref().ok().and_then(|root| root.backend.folder());
        let Some(folder) = folder else { return false };
        TrustedFolders::new(&self.store.folders).has(&folder).await.unwrap_or_default()
    }
}

/// Tells whether a text is what somebody outside wrote: nobody recorded it, or it was recorded as such.
async fn is_from_outside(
    root: &Root,
    head: Option<&Head>,
    path: &RelativePath,
    read: Option<Revision>,
) -> bool {
    let Some(head) = head.filter(|head| head.trust > Trust::Outside) else { return true };
    let now = match read {
        Some(read) => Some(read),
        None => revision(root, path).await,
    };
    head.revision != now
}

async fn revision(root: &Root, path: &RelativePath) -> Option<Revision> {
    let stamp = root.backend.stamp_at_hand(path);
    let known = root.known().revisions.get(path).copied();
    if let Some((of, revision)) = known
        && Some(of) == stamp
    {
        return Some(revision);
    }
    let read = root.backend.read(path, MEMORY_BYTES_MAX).await.ok()?;
    let revision = Revision::of(&read.bytes);
    if read.is_whole() && !read.stat.recent {
        root.known().revisions.insert(path.clone(), (read.stat.stamp, revision));
    }
    Some(revision)
}

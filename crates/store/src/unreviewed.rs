//! Text that came with a repository and that nobody here reviewed: what of it a model is shown unasked.
//!
//! A clone brings memories that anybody may have written. Their trust is [`Trust::Outside`] until somebody here writes or
//! accepts them. As long as the person does not trust the project, such a memory is known by its path alone; in a
//! project that is trusted it speaks, unless screening objects to it. Everything that shows memories asks here.

use std::collections::HashMap;
use std::time::SystemTime;

use memory::change::{ChangeId, Trust};
use memory::document::Revision;
use memory::path::{MemoryPath, RelativePath};

use crate::context_files::TrustedFolders;
use crate::error::StoreError;
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
    /// Returns how far each of these texts may be trusted, in their order: what was recorded of it, if it is still of
    /// this revision; any other text came from outside.
    pub async fn trusted(
        &self,
        texts: &[(&MemoryPath, Revision)],
    ) -> Result<Vec<Trust>, StoreError> {
        let mut trusted = vec![Trust::Outside; texts.len()];
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let (mut places, mut of_root) = (Vec::new(), Vec::new());
            for (at, (path, revision)) in texts.iter().enumerate() {
                if let Some(relative) =
                    path.relative().filter(|_| path.mount() == Some(bound.mount))
                {
                    places.push(at);
                    of_root.push((relative.clone(), Some(*revision)));
                }
            }
            let of_root = self.trust_in(bound, root, &of_root).await?;
            for (at, trust) in places.into_iter().zip(of_root) {
                trusted[at] = trust;
            }
        }
        Ok(trusted)
    }

    /// Returns those of these memories that came with a repository and that nobody here reviewed; `None` stands for the
    /// revision that is there now.
    pub async fn unreviewed(
        &self,
        texts: &[(&MemoryPath, Option<Revision>)],
    ) -> HashMap<MemoryPath, Unreviewed> {
        let mut found = HashMap::new();
        for bound in self.mounts.iter().filter(|bound| bound.in_checkout) {
            let Ok(root) = &bound.root else { continue };
            let (mut paths, mut of_root) = (Vec::new(), Vec::new());
            for &(path, read) in texts {
                let Some(relative) = path.relative() else { continue };
                if path.mount() != Some(bound.mount) {
                    continue;
                }
                let revision = if read.is_some() {
                    read
                } else {
                    // What cannot be read is nothing that somebody here wrote.
                    let stamp = root.backend.stamp_at_hand(relative);
                    root.revision(relative, stamp).await.unwrap_or_default()
                };
                paths.push(path);
                of_root.push((relative.clone(), revision));
            }
            // Without a state nobody knows of a review, and memories can be viewed all the same.
            let trusted = self.trust_in(bound, root, &of_root).await;
            let trusted = trusted.unwrap_or_else(|_| vec![Trust::Outside; of_root.len()]);
            let outside =
                paths.into_iter().zip(trusted).filter(|(_, trust)| *trust == Trust::Outside);
            let outside: Vec<&MemoryPath> = outside.map(|(path, _)| path).collect();
            let is_trusted = !outside.is_empty() && self.is_trusted(bound).await;
            for path in outside {
                let is_silent = !is_trusted || !self.objections(path).await.is_empty();
                let shown = if is_silent { Unreviewed::Silent } else { Unreviewed::Marked };
                found.insert(path.clone(), shown);
            }
        }
        found
    }

    /// Returns how far texts of a root may be trusted. In a checkout, what was written here may have come back by git, or may be
    /// in another worktree: the same bytes have the trust that they were recorded with.
    async fn trust_in(
        &self,
        bound: &BoundMount,
        root: &Root,
        texts: &[(RelativePath, Option<Revision>)],
    ) -> Result<Vec<Trust>, StoreError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let heads = self.store.state.heads(&root.key.place, ChangeId::default()).await?;
        let heads: HashMap<_, _> = heads.iter().map(|head| (&head.path, head)).collect();
        let trust = |(path, revision): &(RelativePath, Option<Revision>)| {
            let head =
                heads.get(path).filter(|head| revision.is_some() && head.revision == *revision);
            head.map_or(Trust::Outside, |head| head.trust)
        };
        let mut trusted: Vec<Trust> = texts.iter().map(trust).collect();
        if bound.in_checkout && trusted.contains(&Trust::Outside) {
            let recorded = self.store.state.recorded(&root.key.identity).await?;
            for (trust, (_, revision)) in trusted.iter_mut().zip(texts) {
                let known = revision.and_then(|revision| recorded.get(&revision).copied());
                *trust = known.map_or(*trust, |known| known.max(*trust));
            }
        }
        Ok(trusted)
    }

    /// Returns what changes when the person trusts another folder, or one no longer.
    pub fn trust_version(&self) -> Option<SystemTime> {
        TrustedFolders::new(&self.store.folders).version()
    }

    /// Tells whether the person trusts the project that a mount lies in. A list that cannot be read trusts nothing.
    async fn is_trusted(&self, bound: &BoundMount) -> bool {
        let folder = bound.root.as_ref().ok().and_then(|root| root.backend.folder());
        let Some(folder) = folder else { return false };
        TrustedFolders::new(&self.store.folders).has(&folder).await.unwrap_or_default()
    }
}

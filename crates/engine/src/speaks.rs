//! What a project would say to models unasked, once a person trusts it.

use std::path::PathBuf;

use store::{ContextFiles, Listed, Memories, NotLoaded, StoreError, Unreviewed};

use crate::open::Engine;

/// What of an untrusted project is kept from models, and would reach them unasked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speaking {
    /// The context files.
    pub files: Vec<PathBuf>,
    /// The memories that nobody here reviewed.
    pub memories: Vec<Listed>,
}

impl Engine {
    /// Returns what would reach models unasked if the project of these memories were trusted; nothing if it is.
    pub async fn would_speak(
        &self,
        files: &ContextFiles,
        memories: &Memories,
    ) -> Result<Speaking, StoreError> {
        let skipped = self.context_text(files).await.skipped;
        let untrusted = skipped.into_iter().filter(|one| one.why == NotLoaded::Untrusted);
        let files = untrusted.map(|one| one.path).collect();
        let mut listed = memories.list(None).await?.memories;
        let paths: Vec<_> = listed.iter().map(|one| (&one.path, None)).collect();
        let unreviewed = memories.unreviewed(&paths).await;
        listed.retain(|one| unreviewed.get(&one.path) == Some(&Unreviewed::Silent));
        Ok(Speaking { files, memories: listed })
    }
}

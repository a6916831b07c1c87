//! What people and programs do beside the six commands: save a whole memory, pin one.

use std::sync::Arc;

use memory::change::{Actor, ChangeKind};
use memory::command::CommandError;
use memory::command::edit;
use memory::document::Revision;
use memory::limits::OUTSIDE_RACE_RETRIES;
use memory::path::{MemoryPath, RelativePath};

use crate::apply::{check_room, look, read_small};
use crate::backend::Kind;
use crate::commit::{self, CommitError, Plan, Step, What};
use crate::error::StoreError;
use crate::memories::{Answering, Call, Expected, Memories, PinNotice, Saved};
use crate::root::HeldRoot;

impl Memories {
    /// Writes a whole memory if it is still what the caller expects; otherwise refuses with
    /// [`CommandError::Conflict`], which carries the current revision, and changes nothing.
    pub fn save<'a>(
        &'a self,
        path: &'a MemoryPath,
        text: &'a str,
        expected: Expected,
        call: &'a Call,
    ) -> Answering<'a, Saved> {
        Box::pin(async move {
            self.check_writable(path)?;
            let (root, relative) = self.inside(path)?;
            root.check_no_list(path, relative).await?;
            edit::check_writable(path, text)?;
            let mut held = [root.hold(&self.store).await?];
            for _ in 0..OUTSIDE_RACE_RETRIES {
                let [only] = &held;
                let decided = self.decide_save(only, path, relative, (text, &expected)).await?;
                let revision = Revision::of(text.as_bytes());
                let Some((what, warnings)) = decided else {
                    // The very same bytes are there already.
                    let warnings = Vec::new();
                    return Ok(Saved { revision, change: None, made: false, warnings });
                };
                let made = matches!(what, What::Put { before: None, .. });
                let plan = Plan {
                    kind: ChangeKind::Save,
                    provenance: self.provenance(call),
                    outside_read: self.caller.outside_read.clone(),
                    attempt: call.attempt,
                    accepts: None,
                    undoes: None,
                    folder: None,
                    steps: vec![Step { root: 0, path: relative.clone(), what, trust: None }],
                    counts_as_use: self.caller.provenance.actor == Actor::Person,
                };
                match commit::commit(&self.store, &mut held, plan).await {
                    Ok(id) => {
                        drop(held);
                        self.store.see_to_settling().await;
                        return Ok(Saved { revision, change: Some(id), made, warnings });
                    }
                    // Somebody outside wrote meanwhile, and what is there now may still be as expected.
                    Err(CommitError::Raced) => {}
                    Err(CommitError::Store(error)) => return Err(error),
                }
            }
            Err(CommandError::Conflict { path: path.clone(), current: None }.into())
        })
    }

    async fn decide_save(
        &self,
        held: &HeldRoot,
        path: &MemoryPath,
        relative: &RelativePath,
        (text, expected): (&str, &Expected),
    ) -> Result<Option<(What, Vec<memory::command::Warning>)>, StoreError> {
        let after: Arc<[u8]> = Arc::from(text.as_bytes());
        let there = match look(&held.root, path, relative).await? {
            Some(Kind::Folder | Kind::Other) => {
                return Err(CommandError::NotAFile { path: path.clone() }.into());
            }
            Some(Kind::File) => Some(read_small(&held.root, path, relative).await?),
            None => None,
        };
        let current = there.as_ref().and_then(|(current, _)| current.revision());
        if !expected.allows(current) {
            return Err(CommandError::Conflict { path: path.clone(), current }.into());
        }
        let Some((before, bytes)) = there else {
            let warnings = self.screen(path, None, text)?;
            self.check_free(held, path, relative, None).await?;
            check_room(held, &self.store, 1).await?;
            return Ok(Some((What::Put { before: None, after }, warnings)));
        };
        if bytes == after {
            return Ok(None);
        }
        // Bytes that are no text are compared as far as they are: a save may mend them.
        let warnings = self.screen(path, Some(&String::from_utf8_lossy(&bytes)), text)?;
        Ok(Some((What::Put { before: Some(before), after }, warnings)))
    }

    /// Pins or unpins a memory; returns whether that changed anything. Only a person pins.
    pub async fn set_pin(&self, path: &MemoryPath, pinned: bool) -> Result<bool, StoreError> {
        let (root, relative) = self.inside(path)?;
        self.check_writable(path)?;
        if self.caller.provenance.actor != Actor::Person {
            return Err(CommandError::ReadOnly { mount: root.mount }.into());
        }
        root.check_no_list(path, relative).await?;
        if pinned {
            match look(root, path, relative).await? {
                Some(Kind::File) => {}
                Some(_) => return Err(CommandError::NotAFile { path: path.clone() }.into()),
                None => return Err(CommandError::NotFound { path: path.clone() }.into()),
            }
        }
        self.store.folders.make_state();
        self.store.store_uses().await;
        let mark = (root.key.identity.as_str(), relative);
        let changed = self.store.state.set_pin(mark, pinned, self.store.clock.now()).await?;
        if changed {
            let (root, path) = (root.key.clone(), relative.clone());
            let provenance = self.caller.provenance.clone();
            self.store.announce_pin(PinNotice { root, path, pinned, provenance });
        }
        Ok(changed)
    }
}

//! Pins and usage that another home recorded.

use std::collections::HashMap;

use memory::change::Actor;
use memory::command::CommandError;
use memory::path::MemoryPath;
use state::{Announcement, PinEvent, UsageRow};

use crate::error::StoreError;
use crate::history::DryRun;
use crate::memories::Memories;

impl Memories {
    /// Adds pins and usage that another home recorded of memories that are here. Returns those that change something:
    /// a memory stays pinned if it was, and keeps the higher count and the later times. A dry run only returns them.
    pub async fn merge_marks(
        &self,
        marks: &[(MemoryPath, UsageRow)],
        dry: DryRun,
    ) -> Result<Vec<(MemoryPath, UsageRow)>, StoreError> {
        let mut changed = Vec::new();
        for bound in &self.mounts {
            let of_mount = marks.iter().filter(|(path, _)| path.mount() == Some(bound.mount));
            let of_mount: Vec<_> = of_mount.collect();
            let (Some((first, _)), Ok(root)) = (of_mount.first(), &bound.root) else { continue };
            self.check_writable(first)?;
            if self.caller.provenance.actor != Actor::Person {
                return Err(CommandError::ReadOnly { mount: root.mount }.into());
            }
            if dry == DryRun::No {
                self.store.folders.create_state_folder();
                self.store.flush_uses().await;
            }
            let identity = root.key.identity.as_str();
            let there = self.store.state.usage_rows(identity).await?;
            let there: HashMap<_, _> = there.iter().map(|mark| (&mark.path, mark)).collect();
            let mut to_merge = Vec::new();
            for (path, mark) in of_mount {
                let Some(relative) = path.relative() else { continue };
                let mark = UsageRow { path: relative.clone(), ..mark.clone() };
                let known = there.get(relative);
                if known.is_some_and(|known| !raises(&mark, known)) {
                    continue;
                }
                let is_new_pin = mark.pinned && !known.is_some_and(|known| known.pinned);
                changed.push((path.clone(), UsageRow { pinned: is_new_pin, ..mark.clone() }));
                to_merge.push((mark, is_new_pin));
            }
            if dry == DryRun::Yes {
                continue;
            }
            let merged: Vec<_> = to_merge.iter().map(|(mark, _)| mark.clone()).collect();
            self.store.state.merge_marks(identity, &merged).await?;
            for (mark, _) in to_merge.into_iter().filter(|(_, is_new_pin)| *is_new_pin) {
                let (root, path) = (root.key.clone(), mark.path);
                let provenance = self.caller.provenance.clone();
                let pin = PinEvent { root, path, pinned: true, provenance };
                self.store.announce(Announcement::Pin(pin)).await;
            }
        }
        Ok(changed)
    }
}

/// Tells whether a mark from elsewhere adds something to the one that is there.
fn raises(mark: &UsageRow, there: &UsageRow) -> bool {
    let (new, old) = (&mark.usage, &there.usage);
    (mark.pinned && !there.pinned)
        || new.uses > old.uses
        || new.last_used_at > old.last_used_at
        || new.last_written_at > old.last_written_at
}

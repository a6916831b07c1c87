//! Screening at load: what the rules object to in memories that came with a repository.
//!
//! A clone brings memories that nobody here wrote and no screening saw. They are not refused and not
//! hidden; whoever is about to be shown one is told. What lies outside of checkouts was screened when
//! it was written and is not looked at again.

use std::sync::Arc;

use memory::command::Warning;
use memory::command::view::Row;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{MemoryPath, Mount, RelativePath};
use memory::screen::Writer;

use crate::memories::{BoundMount, Memories};
use crate::root::whole_characters;

impl Memories {
    /// Returns what screening objects to in the name and the text of a memory that travels with a
    /// repository, each rule once; nothing for other memories. What cannot be read has no text.
    pub async fn objections(&self, path: &MemoryPath) -> Arc<[Warning]> {
        let MemoryPath::Inside(mount, relative) = path else { return Arc::default() };
        let Some(root) = self.cloned_into(*mount).and_then(|bound| bound.root.as_ref().ok()) else {
            return Arc::default();
        };
        let read = root.backend.read(relative, MEMORY_BYTES_MAX).await;
        let Ok(read) = read else { return self.objected(relative, "").into() };
        let known = root.cache().objections.get(relative, read.stat.stamp);
        if let Some(known) = known {
            return known;
        }
        let text = str::from_utf8(whole_characters(&read.bytes, read.is_whole()));
        let found: Arc<[Warning]> = self.objected(relative, text.unwrap_or_default()).into();
        root.cache().objections.insert(relative, read.stat.stamp, Arc::clone(&found));
        found
    }

    /// Returns what screening objects to in a text that was read from a memory.
    pub(crate) fn objections_to(
        &self,
        mount: Mount,
        path: &RelativePath,
        text: &str,
    ) -> Vec<Warning> {
        match self.cloned_into(mount) {
            Some(_) => self.objected(path, text),
            None => Vec::new(),
        }
    }

    /// Marks the memories of a listing that screening objects to.
    pub(crate) async fn mark_objections(&self, rows: &mut [Row]) {
        if !self.mounts.iter().any(|bound| bound.in_checkout) {
            return;
        }
        for row in rows.iter_mut().filter(|row| !row.path.ends_with('/')) {
            let Ok(path) = MemoryPath::parse(&row.path, self.layout) else { continue };
            if let Some(first) = self.objections(&path).await.first() {
                row.note = Some(format!("matches the screening rule `{}`", first.rule));
            }
        }
    }

    fn cloned_into(&self, mount: Mount) -> Option<&BoundMount> {
        self.mounts.iter().find(|bound| bound.mount == mount && bound.in_checkout)
    }

    fn objected(&self, path: &RelativePath, text: &str) -> Vec<Warning> {
        let screen = &self.store.screen;
        let words = path.as_str().replace(['-', '_', '/'], " ");
        let mut found = screen.check(text, Writer::Agent);
        found.extend(screen.check(&words, Writer::Agent));
        found.extend(screen.check(path.as_str(), Writer::Agent));
        let mut warnings: Vec<Warning> = Vec::new();
        for found in found {
            if !warnings.iter().any(|known| known.rule == found.rule) {
                warnings.push(Warning { rule: found.rule, line: found.line });
            }
        }
        warnings
    }
}

//! Screening at load: what the rules object to in memories that came with a repository.
//!
//! A clone brings memories that nobody here wrote and no screening saw. They are not refused and not
//! hidden; whoever is about to be shown one is told. What lies outside of checkouts was screened when
//! it was written and is not looked at again.

use std::sync::Arc;

use memory::command::Warning;
use memory::command::view::FolderRow;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{MemoryPath, Mount, RelativePath};
use memory::screen::TextAuthor;

use crate::backend::FileRead;
use crate::cache::trim_partial_character;
use crate::memories::{BoundMount, Memories};
use crate::root::Root;

impl Memories {
    /// Returns what screening objects to in the names and the texts of memories, in their order: each rule once, and
    /// nothing for memories that do not travel with a repository. What cannot be read has no text.
    pub async fn read_warnings(&self, paths: &[&MemoryPath]) -> Vec<Arc<[Warning]>> {
        let mut found = vec![Arc::default(); paths.len()];
        for bound in self.mounts.iter().filter(|bound| bound.in_checkout) {
            let Ok(root) = &bound.root else { continue };
            let inside = |(at, path): (usize, &&MemoryPath)| match path {
                MemoryPath::Inside(mount, relative) if *mount == bound.mount => {
                    Some((at, relative.clone()))
                }
                _ => None,
            };
            let (places, files): (Vec<_>, Vec<_>) =
                paths.iter().enumerate().filter_map(inside).unzip();
            for (at, objections) in
                places.into_iter().zip(self.read_warnings_in(root, &files).await)
            {
                found[at] = objections;
            }
        }
        found
    }

    async fn read_warnings_in(&self, root: &Root, files: &[RelativePath]) -> Vec<Arc<[Warning]>> {
        let stamps = root.stamps(files).await;
        let versions =
            files.iter().zip(&stamps).filter_map(|(file, stamp)| Some((file, (*stamp)?)));
        let versions: Vec<_> = versions.collect();
        let objected = |file: &RelativePath, read: &FileRead| -> Arc<[Warning]> {
            let text = str::from_utf8(trim_partial_character(&read.bytes, read.is_whole()));
            self.screen_text(file, text.unwrap_or_default()).into()
        };
        let read =
            root.derive_all(&versions, MEMORY_BYTES_MAX, |cache| &mut cache.warnings, objected);
        let mut read = read.await.into_iter();
        let all = files.iter().zip(stamps).map(|(file, stamp)| {
            let read = stamp.and_then(|_| read.next().expect("each version is read").ok());
            read.unwrap_or_else(|| self.screen_text(file, "").into())
        });
        all.collect()
    }

    /// Returns what screening objects to in a text that was read from a memory.
    pub(crate) fn warnings_for(
        &self,
        mount: Mount,
        path: &RelativePath,
        text: &str,
    ) -> Vec<Warning> {
        match self.repository_mount(mount) {
            Some(_) => self.screen_text(path, text),
            None => Vec::new(),
        }
    }

    /// Marks the memories of a listing that screening objects to.
    pub(crate) async fn mark_flagged(&self, rows: &mut [FolderRow]) {
        if !self.mounts.iter().any(|bound| bound.in_checkout) {
            return;
        }
        let (places, paths): (Vec<_>, Vec<_>) = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| !row.path.ends_with('/'))
            .filter_map(|(at, row)| Some((at, MemoryPath::parse(&row.path, self.layout).ok()?)))
            .unzip();
        let objections = self.read_warnings(&paths.iter().collect::<Vec<_>>()).await;
        for (at, objections) in places.into_iter().zip(objections) {
            if let Some(first) = objections.first() {
                rows[at].note = Some(format!("matches the screening rule `{}`", first.rule));
            }
        }
    }

    fn repository_mount(&self, mount: Mount) -> Option<&BoundMount> {
        self.mounts.iter().find(|bound| bound.mount == mount && bound.in_checkout)
    }

    fn screen_text(&self, path: &RelativePath, text: &str) -> Vec<Warning> {
        let screen = &self.store.screen;
        let words = path.as_str().replace(['-', '_', '/'], " ");
        let mut found = screen.check(text, TextAuthor::Agent);
        found.extend(screen.check(&words, TextAuthor::Agent));
        found.extend(screen.check(path.as_str(), TextAuthor::Agent));
        let mut warnings: Vec<Warning> = Vec::new();
        for found in found {
            if !warnings.iter().any(|known| known.rule == found.rule) {
                warnings.push(Warning { rule: found.rule, line: found.line });
            }
        }
        warnings
    }
}

//! Screening on read: the rules that memories from a repository violate.
//!
//! A clone brings memories that were never screened on this host. They are neither refused nor
//! hidden, but shown with warnings. Memories outside of checkouts were screened when they were
//! written, and are not screened again.

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
    /// Returns the warnings about names and texts of memories, in their order, with each rule once. A memory
    /// outside of a checkout has none. A memory that cannot be read is screened by its name alone.
    pub async fn read_warnings(&self, paths: &[&MemoryPath]) -> Vec<Arc<[Warning]>> {
        let mut all_warnings = vec![Arc::default(); paths.len()];
        for bound in self.mounts.iter().filter(|bound| bound.in_checkout) {
            let Ok(root) = &bound.root else { continue };
            let inside = |(index, path): (usize, &&MemoryPath)| match path {
                MemoryPath::Inside(mount, relative) if *mount == bound.mount => {
                    Some((index, relative.clone()))
                }
                _ => None,
            };
            let (indexes, files): (Vec<_>, Vec<_>) =
                paths.iter().enumerate().filter_map(inside).unzip();
            for (index, warnings) in
                indexes.into_iter().zip(self.read_warnings_in(root, &files).await)
            {
                all_warnings[index] = warnings;
            }
        }
        all_warnings
    }

    async fn read_warnings_in(&self, root: &Root, files: &[RelativePath]) -> Vec<Arc<[Warning]>> {
        let stamps = root.stamps(files).await;
        let versions =
            files.iter().zip(&stamps).filter_map(|(file, stamp)| Some((file, (*stamp)?)));
        let versions: Vec<_> = versions.collect();
        let screen = |file: &RelativePath, read: &FileRead| -> Arc<[Warning]> {
            let text = str::from_utf8(trim_partial_character(&read.bytes, read.is_whole()));
            self.screen_text(file, text.unwrap_or_default()).into()
        };
        let read =
            root.derive_all(&versions, MEMORY_BYTES_MAX, |cache| &mut cache.warnings, screen);
        let mut read = read.await.into_iter();
        let warnings = files.iter().zip(stamps).map(|(file, stamp)| {
            let read = stamp.and_then(|_| read.next().expect("each version is read").ok());
            read.unwrap_or_else(|| self.screen_text(file, "").into())
        });
        warnings.collect()
    }

    /// Returns the warnings about a text that was read from a memory.
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

    /// Adds notes to the rows of memories that screening warns about.
    pub(crate) async fn mark_flagged(&self, rows: &mut [FolderRow]) {
        if !self.mounts.iter().any(|bound| bound.in_checkout) {
            return;
        }
        let (indexes, paths): (Vec<_>, Vec<_>) = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| !row.path.ends_with('/'))
            .filter_map(|(index, row)| {
                Some((index, MemoryPath::parse(&row.path, self.layout).ok()?))
            })
            .unzip();
        let warnings = self.read_warnings(&paths.iter().collect::<Vec<_>>()).await;
        for (index, warnings) in indexes.into_iter().zip(warnings) {
            if let Some(first) = warnings.first() {
                rows[index].note = Some(format!("matches the screening rule `{}`", first.rule));
            }
        }
    }

    /// Checks whether the memories of a mount are in a repository.
    pub(crate) fn is_in_repository(&self, mount: Mount) -> bool {
        self.repository_mount(mount).is_some()
    }

    fn repository_mount(&self, mount: Mount) -> Option<&BoundMount> {
        self.mounts.iter().find(|bound| bound.mount == mount && bound.in_checkout)
    }

    fn screen_text(&self, path: &RelativePath, text: &str) -> Vec<Warning> {
        let screen = &self.store.screen;
        let words = path.as_str().replace(['-', '_', '/'], " ");
        let mut findings = screen.check(text, TextAuthor::Agent);
        findings.extend(screen.check(&words, TextAuthor::Agent));
        findings.extend(screen.check(path.as_str(), TextAuthor::Agent));
        let mut warnings: Vec<Warning> = Vec::new();
        for finding in findings {
            if !warnings.iter().any(|known| known.rule == finding.rule) {
                warnings.push(Warning { rule: finding.rule, line: finding.line });
            }
        }
        warnings
    }
}

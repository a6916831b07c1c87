//! Screening on read: the rules that memories from a repository violate, and the merge conflicts in memories.
//!
//! A clone brings memories that were never screened on this host. They are neither refused nor
//! hidden, but shown with warnings. Memories outside of checkouts were screened when they were
//! written, and are not screened again.

use std::sync::Arc;

use memory::command::Warning;
use memory::command::view::FolderRow;
use memory::document::conflict_line;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{MemoryPath, Mount, RelativePath};
use memory::screen::TextAuthor;

use crate::backend::FileRead;
use crate::cache::{TextFindings, trim_partial_character};
use crate::memories::{BoundMount, Memories};
use crate::root::{Root, summaries};

impl Memories {
    /// Returns the warnings about names and texts of memories, in their order, with each rule once. A memory
    /// outside of a checkout has none. A memory that cannot be read is screened by its name alone.
    pub async fn read_warnings(&self, paths: &[&MemoryPath]) -> Vec<Arc<[Warning]>> {
        let findings = self.findings_in(paths, |bound| bound.in_checkout).await;
        findings.into_iter().map(|findings| findings.warnings).collect()
    }

    /// Returns what is to be said about memories before they are shown, in their order: the warnings, as in
    /// [`read_warnings`](Self::read_warnings), and whether there is an unresolved merge conflict. In a checkout, where git merges,
    /// whole texts are checked for one; elsewhere only the beginning is.
    pub async fn text_findings(&self, paths: &[&MemoryPath]) -> Vec<TextFindings> {
        self.findings_in(paths, |_| true).await
    }

    /// Examines the memories of some mounts. The others have no findings.
    async fn findings_in(
        &self,
        paths: &[&MemoryPath],
        is_examined: impl Fn(&BoundMount) -> bool,
    ) -> Vec<TextFindings> {
        let mut all = vec![TextFindings::default(); paths.len()];
        for bound in self.mounts.iter().filter(|bound| is_examined(bound)) {
            let Ok(root) = &bound.root else { continue };
            let (indexes, files) = paths_in(bound.mount, paths);
            let found = if bound.in_checkout {
                self.examine_texts(root, &files).await
            } else {
                examine_heads(root, &files).await
            };
            for (index, findings) in indexes.into_iter().zip(found) {
                all[index] = findings;
            }
        }
        all
    }

    async fn examine_texts(&self, root: &Root, files: &[RelativePath]) -> Vec<TextFindings> {
        let stamps = root.stamps(files).await;
        let versions =
            files.iter().zip(&stamps).filter_map(|(file, stamp)| Some((file, (*stamp)?)));
        let versions: Vec<_> = versions.collect();
        let findings = |file: &RelativePath, text: &str| TextFindings {
            warnings: self.screen_text(file, text).into(),
            in_conflict: conflict_line(text).is_some(),
        };
        let examine = |file: &RelativePath, read: &FileRead| {
            let text = str::from_utf8(trim_partial_character(&read.bytes, read.is_whole()));
            findings(file, text.unwrap_or_default())
        };
        let read =
            root.derive_all(&versions, MEMORY_BYTES_MAX, |cache| &mut cache.findings, examine);
        let mut read = read.await.into_iter();
        let all = files.iter().zip(stamps).map(|(file, stamp)| {
            let read = stamp.and_then(|_| read.next().expect("each version is read").ok());
            read.unwrap_or_else(|| findings(file, ""))
        });
        all.collect()
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

    /// Adds notes to the rows of memories that screening warns about, or that have a merge conflict.
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
        let paths: Vec<_> = paths.iter().collect();
        for (index, findings) in indexes.into_iter().zip(self.text_findings(&paths).await) {
            if let Some(first) = findings.warnings.first() {
                rows[index].note = Some(format!("matches the screening rule `{}`", first.rule));
            } else if findings.in_conflict {
                rows[index].note = Some("in conflict".to_owned());
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

/// Returns the memories of a mount, with their places in a list.
fn paths_in(mount: Mount, paths: &[&MemoryPath]) -> (Vec<usize>, Vec<RelativePath>) {
    let inside = |(index, path): (usize, &&MemoryPath)| match path {
        MemoryPath::Inside(of, relative) if *of == mount => Some((index, relative.clone())),
        _ => None,
    };
    paths.iter().enumerate().filter_map(inside).unzip()
}

async fn examine_heads(root: &Root, files: &[RelativePath]) -> Vec<TextFindings> {
    let stamps = root.stamps(files).await;
    let versions: Vec<_> =
        files.iter().zip(&stamps).filter_map(|(file, stamp)| Some((file, (*stamp)?))).collect();
    let mut heads = summaries(root, &versions).await.into_iter();
    let findings = stamps.iter().map(|stamp| {
        let head = stamp.and_then(|_| heads.next().expect("each version is read").ok());
        let in_conflict = head.is_some_and(|head| head.in_conflict);
        TextFindings { in_conflict, ..TextFindings::default() }
    });
    findings.collect()
}

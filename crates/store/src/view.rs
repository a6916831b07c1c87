//! Reads of a caller: views of files and folders, listings, and scans. They take no write lock and
//! create no memory. A first read may recover an interrupted write.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use memory::change::{Actor, RootKey};
use memory::command::view::{FROM_CHECKOUT, FolderRow, view_file, view_folder};
use memory::command::{self, CommandError, Reply, ViewRange};
use memory::document::{Revision, conflict_line};
use memory::limits::{
    LISTED_PATHS_MAX, MEMORY_BYTES_MAX, UNREVIEWED_BYTES_MAX, VIEW_BYTES_MAX, VIEW_DEPTH,
};
use memory::path::{MemoryPath, Mount, RelativePath};
use state::{UsageRow, UseEvent};

use crate::backend::{
    BackendError, Extent, FileKind, FileList, Freshness, READ_CALLS_AT_ONCE, Walk, WalkedFile,
};
use crate::cache::{TextFindings, trim_partial_character};
use crate::checks::{backend_refusal, kind_at, too_large_error, virtual_path};
use crate::error::StoreError;
use crate::memories::{
    BoundMount, ChangedMemory, Listing, Memories, MemoriesVersion, MemoryEntry, MemoryText,
    ScannedMemory,
};
use crate::memory_list::is_generated_list;
use crate::root::{Root, document_heads};
use crate::unreviewed::Unreviewed;

impl Memories {
    /// Shows a file or folder to an agent. The view of a file counts as a use.
    pub(crate) async fn view(
        &self,
        path: &MemoryPath,
        lines: &ViewRange,
    ) -> Result<Reply, StoreError> {
        match path {
            MemoryPath::Top => self.view_top().await,
            MemoryPath::Root(mount) => {
                let root = self.root(*mount)?;
                self.view_folder(root, path, None).await
            }
            MemoryPath::Inside(mount, relative) => {
                let root = self.root(*mount)?;
                match self.view_file(root, path, lines).await {
                    Err(StoreError::Refused(CommandError::NotAFile { .. }))
                        if kind_at(root, path, relative).await? == Some(FileKind::Folder) =>
                    {
                        self.view_folder(root, path, Some(relative)).await
                    }
                    shown => shown,
                }
            }
        }
    }

    async fn view_file(
        &self,
        root: &Arc<Root>,
        path: &MemoryPath,
        lines: &ViewRange,
    ) -> Result<Reply, StoreError> {
        let (_, relative) = self.resolve_in_root(path)?;
        root.recover_once(&self.store).await;
        let max = if is_part(lines) { VIEW_BYTES_MAX } else { MEMORY_BYTES_MAX };
        let read = root.backend.read(relative, max).await;
        let read = match read {
            // A parent of the path is a file, so nothing is at the path.
            Err(BackendError::WrongKind) if kind_at(root, path, relative).await?.is_none() => {
                return Err(CommandError::NotFound { path: path.clone() }.into());
            }
            read => read.map_err(backend_refusal(root.mount, path))?,
        };
        let whole = read.is_whole();
        if !whole && !is_part(lines) {
            return Err(too_large_error(path, read.stat.bytes).into());
        }
        let text = command::decode_text(path, trim_partial_character(&read.bytes, whole))?;
        let mut shown = view_file(path, text, lines)?;
        let warnings = self.warnings_for(root.mount, relative, text);
        if whole && !read.stat.recent && self.is_in_repository(root.mount) {
            // The review status below depends on them, too.
            let in_conflict = conflict_line(text).is_some();
            let findings = TextFindings { warnings: warnings.clone().into(), in_conflict };
            root.cache().findings.insert(relative, read.stat.stamp, findings);
        }
        if !warnings.is_empty() {
            shown = format!("{shown}\n{FROM_CHECKOUT}");
        }
        let revision = whole.then(|| Revision::digest(&read.bytes));
        if self.caller.provenance.actor != Actor::Person {
            let unreviewed = self.unreviewed(&[(path, revision)]).await;
            let unreviewed = unreviewed.get(path).copied();
            self.note_read(unreviewed).await?;
            if let Some([before, after]) = unreviewed.and_then(Unreviewed::marker_lines) {
                shown = format!("{before}\n{shown}\n{after}");
            }
            let used = UseEvent {
                identity: root.key.identity.clone(),
                path: relative.clone(),
                at: self.store.clock.now(),
                is_write: false,
            };
            self.store.record_use(used).await;
        }
        Ok(Reply::Done { text: shown, change: None, revision, warnings })
    }

    async fn view_folder(
        &self,
        root: &Arc<Root>,
        path: &MemoryPath,
        relative: Option<&RelativePath>,
    ) -> Result<Reply, StoreError> {
        root.recover_once(&self.store).await;
        let extent = Extent { max: LISTED_PATHS_MAX, levels: VIEW_DEPTH };
        let walk = root.backend.walk(relative, extent).await;
        let walk = walk.map_err(backend_refusal(root.mount, path))?;
        let mut rows = rows(root.mount, &walk);
        let more = truncate_rows(&mut rows, walk.in_reach);
        self.mark_flagged(&mut rows).await;
        Ok(Reply::done(view_folder(path, walk.bytes_total, &rows, more)))
    }

    async fn view_top(&self) -> Result<Reply, StoreError> {
        let extent = Extent { max: LISTED_PATHS_MAX, levels: VIEW_DEPTH - 1 };
        let (mut rows, mut total, mut in_reach) = (Vec::new(), 0, self.mounts.len());
        for bound in &self.mounts {
            if let Ok(root) = &bound.root {
                root.recover_once(&self.store).await;
            }
            let walked = match &bound.root {
                Ok(root) => match root.backend.walk(None, extent).await {
                    Ok(walk) => Ok(walk),
                    Err(BackendError::Escapes(_) | BackendError::WrongKind) => {
                        Err("its folder is, or is behind, a link or file and is not used"
                            .to_owned())
                    }
                    Err(BackendError::Unreachable(reason)) => Err(reason),
                    Err(error @ BackendError::StateUnreachable(_)) => {
                        return Err(StoreError::backend_error(bound.mount)(error));
                    }
                    Err(error) => {
                        tracing::warn!(mount = %bound.mount, %error, "listing a root failed");
                        Err("its folder cannot be read".to_owned())
                    }
                },
                Err(reason) => Err(reason.clone()),
            };
            let path = format!("{}/", bound.mount);
            match walked {
                Ok(walk) => {
                    total += walk.bytes_total;
                    in_reach += walk.in_reach;
                    rows.push(FolderRow { bytes: walk.bytes_total, path, note: None });
                    rows.extend(self::rows(bound.mount, &walk));
                }
                Err(reason) => {
                    rows.push(FolderRow {
                        bytes: 0,
                        path,
                        note: Some(format!("unavailable: {reason}")),
                    });
                }
            }
        }
        let more = truncate_rows(&mut rows, in_reach);
        self.mark_flagged(&mut rows).await;
        Ok(Reply::done(view_folder(&MemoryPath::Top, total, &rows, more)))
    }

    /// Reads a memory for a person or program. It does not count as a use.
    pub async fn read(&self, path: &MemoryPath) -> Result<MemoryText, StoreError> {
        self.read_in_scope(&[path]).await.pop().expect("one path has one answer")
    }

    /// Reads several memories, in their order, each as [`Self::read`] does.
    pub async fn read_many(&self, paths: &[&MemoryPath]) -> Vec<Result<MemoryText, StoreError>> {
        let mut reads = Vec::new();
        for group in paths.chunk_by(|path, next| path.mount() == next.mount()) {
            let root = group.first().and_then(|path| self.root(path.mount()?).ok());
            let at_once =
                root.map_or(group.len(), |root| root.backend.files_at_once(MEMORY_BYTES_MAX));
            for batch in group.chunks(at_once) {
                reads.push(self.read_in_scope(batch).boxed());
            }
        }
        let mut reads = stream::iter(reads).buffered(READ_CALLS_AT_ONCE);
        let mut read = Vec::with_capacity(paths.len());
        while let Some(batch) = reads.next().await {
            read.extend(batch);
        }
        read
    }

    /// Reads memories of one scope.
    async fn read_in_scope(&self, paths: &[&MemoryPath]) -> Vec<Result<MemoryText, StoreError>> {
        let inside: Vec<_> = paths.iter().map(|path| self.resolve_in_root(path)).collect();
        let mut reads = Vec::new();
        if let Some((root, _)) = inside.iter().flatten().next() {
            root.recover_once(&self.store).await;
            let files: Vec<_> = inside.iter().flatten().map(|(_, file)| (*file).clone()).collect();
            reads = root.backend.read_many(&files, MEMORY_BYTES_MAX).await;
        }
        let mut reads = reads.into_iter();
        let texts = paths.iter().zip(inside).map(|(path, inside)| {
            let (root, _) = inside?;
            let read = reads.next().expect("a backend reads each file");
            let read = read.map_err(backend_refusal(root.mount, path))?;
            if !read.is_whole() {
                return Err(too_large_error(path, read.stat.bytes).into());
            }
            let text = command::decode_text(path, &read.bytes)?.to_owned();
            let revision = Revision::digest(&read.bytes);
            Ok(MemoryText { text, revision, modified_at: read.stat.modified_at })
        });
        texts.collect()
    }

    /// Reads several memories; one that cannot be read does not hide the others. Returns `None` for a memory that
    /// is gone, is not text, is too large, or cannot be read, which is logged. It does not count as a use.
    pub async fn read_readable(&self, paths: &[&MemoryPath]) -> Vec<Option<MemoryText>> {
        let read = self.read_many(paths).await;
        let texts = paths.iter().zip(read).map(|(path, read)| match read {
            Ok(read) => Some(read),
            Err(StoreError::Refused(_)) => None,
            Err(error) => {
                tracing::warn!(%path, error = &error as &dyn std::error::Error, "reading a memory failed; skipping it");
                None
            }
        });
        texts.collect()
    }

    /// Checks whether anything but a folder, such as a link, is at this path, or the path cannot be checked.
    pub async fn is_not_a_folder(&self, path: &MemoryPath) -> bool {
        let Ok((root, relative)) = self.resolve_in_root(path) else { return false };
        !matches!(root.backend.kind(relative).await, Ok(None | Some(FileKind::Folder)))
    }

    /// Lists the memories of all scopes, or of one scope or folder, up to the limit of a scope. An unavailable
    /// scope has none. A listing does not count as a use.
    pub async fn list(&self, under: Option<&MemoryPath>) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        let under = under.filter(|path| **path != MemoryPath::Top);
        for bound in self.mounts_of(under)? {
            let Ok(root) = &bound.root else {
                listing.incomplete_mounts.push(bound.mount);
                continue;
            };
            self.list_root(bound, root, under, &mut listing).await?;
        }
        Ok(listing)
    }

    /// Returns all mounts, available or not, or that of a path, which must be available.
    fn mounts_of(&self, under: Option<&MemoryPath>) -> Result<Vec<&BoundMount>, StoreError> {
        let Some(mount) = under.and_then(MemoryPath::mount) else {
            return Ok(self.mounts.iter().collect());
        };
        let named = self.mounts.iter().filter(|bound| bound.mount == mount);
        named.map(|bound| Ok(self.root(mount).map(|_| bound)?)).collect()
    }

    /// Calls `visit` with the text of each memory, or with the reason why it has none. Visits all scopes, or one scope or
    /// folder, in the order of a listing. Stops when `visit` breaks. Returns the number of memories beyond the maximum of a
    /// listing, which are left out. Does not count as a use.
    pub async fn visit_texts(
        &self,
        under: Option<&MemoryPath>,
        mut visit: impl FnMut(&MemoryPath, Result<&str, StoreError>) -> ControlFlow<()> + Send,
    ) -> Result<usize, StoreError> {
        let mut omitted = 0;
        let under = under.filter(|path| **path != MemoryPath::Top);
        for bound in self.mounts_of(under)? {
            let Ok(root) = &bound.root else { continue };
            let Some(list) = self.list_files(bound, root, under).await? else { continue };
            omitted += list.files_total - list.files.len();
            let mut batches = Vec::new();
            for files in list.files.chunks(root.backend.files_at_once(MEMORY_BYTES_MAX)) {
                batches.push(cached_texts(root, files).boxed());
            }
            let mut batches = stream::iter(batches).buffered(READ_CALLS_AT_ONCE);
            let mut files = list.files.iter();
            while let Some(texts) = batches.next().await {
                // The texts come first, so that the end of a batch takes no file.
                for (text, file) in texts.into_iter().zip(files.by_ref()) {
                    let is_generated = |text: &Arc<str>| is_generated_list(text.as_bytes());
                    if root.is_list(&file.path) && text.as_ref().is_ok_and(is_generated) {
                        continue;
                    }
                    let Ok(path) = virtual_path(bound.mount, file.path.clone()) else { continue };
                    let flow = match text {
                        Ok(text) => visit(&path, Ok(&text)),
                        Err(error) => visit(&path, Err(error.at(bound.mount, &path))),
                    };
                    if flow.is_break() {
                        return Ok(omitted);
                    }
                }
            }
        }
        Ok(omitted)
    }

    /// Finds the memories of all scopes without reading their files, in the order of their paths in each scope.
    /// Generated lists are included. A scope that is unavailable, or whose folder cannot be used, has none. A scan
    /// does not count as a use.
    pub async fn scan_roots(&self) -> Result<Vec<ScannedMemory>, StoreError> {
        let mut memories = Vec::new();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let (list, marks) =
                tokio::join!(self.list_files(bound, root, None), self.usage_by_path(&root.key));
            let Some(list) = list? else { continue };
            let reviewed = self.reviewed_in_untrusted(bound, root).await;
            let mut bytes_left = UNREVIEWED_BYTES_MAX;
            memories.extend(list.files.iter().filter_map(|file| {
                let mark = marks.get(&file.path);
                let mut exceeds_limit = false;
                if reviewed.as_ref().is_some_and(|reviewed| !reviewed.contains(&file.path)) {
                    exceeds_limit = file.stat.bytes > bytes_left;
                    bytes_left = bytes_left.saturating_sub(file.stat.bytes);
                }
                Some(ScannedMemory {
                    exceeds_untrusted_limit: exceeds_limit,
                    pinned: mark.is_some_and(|mark| mark.pinned),
                    uses: mark.map_or(0, |mark| mark.usage.uses),
                    path: virtual_path(bound.mount, file.path.clone()).ok()?,
                    stamp: (!file.stat.recent).then_some(file.stat.stamp),
                    modified_at: file.stat.modified_at,
                })
            }));
        }
        Ok(memories)
    }

    /// Returns the memories whose files may have changed since a version. Returns `None` if only a scan can tell.
    pub async fn changed_since(&self, version: &MemoriesVersion) -> Option<Vec<ChangedMemory>> {
        let mut changed = Vec::new();
        let mut earlier = version.lists();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let list = root.backend.list(Freshness::Noticed).await.ok()?;
            let paths = list.changed_since(earlier.next()?)?;
            // How much of an untrusted project may be read depends on all of its files.
            if !paths.is_empty() && self.reviewed_in_untrusted(bound, root).await.is_some() {
                return None;
            }
            for path in paths {
                let file = list.file(path);
                let stamp = file.filter(|file| !file.stat.recent).map(|file| file.stat.stamp);
                let path = virtual_path(bound.mount, path.clone()).ok()?;
                changed.push(ChangedMemory { path, exists: file.is_some(), stamp });
            }
        }
        Some(changed)
    }

    /// Lists the files of a root or folder. Returns `None` for a root that cannot be used, unless `under` names it: then
    /// that is an error.
    async fn list_files(
        &self,
        bound: &BoundMount,
        root: &Arc<Root>,
        under: Option<&MemoryPath>,
    ) -> Result<Option<Arc<FileList>>, StoreError> {
        let folder = under.and_then(MemoryPath::relative);
        root.recover_once(&self.store).await;
        let files = if folder.is_none() {
            root.backend.list(Freshness::Observed).await
        } else {
            let walk = root.backend.walk(folder, Extent::ALL).await;
            walk.map(|walk| Arc::new(FileList::from(walk)))
        };
        match (files, under) {
            (Ok(files), _) => Ok(Some(files)),
            // The link reported it.
            (Err(BackendError::Unreachable(_)), None) => Ok(None),
            // The other roots are there, too, so an answer without them would look as if there were no memories.
            (Err(error @ BackendError::StateUnreachable(_)), None) => {
                Err(StoreError::backend_error(bound.mount)(error))
            }
            // The failure must not hide the other roots; `status` reports it.
            (Err(error), None) => {
                tracing::warn!(mount = %bound.mount, %error, "listing a root failed");
                Ok(None)
            }
            (Err(error), Some(path)) if folder.is_some() => {
                Err(backend_refusal(bound.mount, path)(error))
            }
            (Err(error), Some(_)) => Err(StoreError::backend_error(bound.mount)(error)),
        }
    }

    async fn list_root(
        &self,
        bound: &BoundMount,
        root: &Arc<Root>,
        under: Option<&MemoryPath>,
        listing: &mut Listing,
    ) -> Result<(), StoreError> {
        let (list, mut marks) =
            tokio::join!(self.list_files(bound, root, under), self.usage_by_path(&root.key));
        let Some(list) = list? else {
            listing.incomplete_mounts.push(bound.mount);
            return Ok(());
        };
        let omitted = list.files_total.saturating_sub(list.files.len());
        if omitted > 0 {
            listing.incomplete_mounts.push(bound.mount);
        }
        listing.omitted += omitted;
        let heads = match document_heads(root, &list.files).await {
            Ok(heads) => heads,
            Err(BackendError::Unreachable(_)) if under.is_none() => {
                listing.incomplete_mounts.push(bound.mount);
                return Ok(());
            }
            Err(error) => return Err(StoreError::backend_error(bound.mount)(error)),
        };
        for (file, head) in list.files.iter().zip(heads) {
            if root.is_list(&file.path) && head.generated {
                continue;
            }
            // A checkout may hold files too deep for a memory path; they must not hide the others.
            let Ok(path) = virtual_path(bound.mount, file.path.clone()) else {
                listing.omitted += 1;
                continue;
            };
            let mark = marks.remove(&file.path);
            listing.memories.push(MemoryEntry {
                path,
                bytes: file.stat.bytes,
                modified_at: file.stat.modified_at,
                description: head.head.shown_description().to_owned(),
                is_described: !head.head.description.is_empty(),
                name: head.head.name.clone(),
                rules: head.head.rules.in_file(file.path.file_name(), head.head.kind.as_deref()),
                kind: head.head.kind.clone(),
                pinned: mark.as_ref().is_some_and(|mark| mark.pinned),
                usage: mark.map(|mark| mark.usage).unwrap_or_default(),
            });
        }
        Ok(())
    }

    /// Returns pins and usage by path. Empty if the state cannot be read, which must not hide a memory.
    pub(crate) async fn usage_by_path(&self, key: &RootKey) -> HashMap<RelativePath, UsageRow> {
        self.store.flush_uses().await;
        match self.store.state.usage_rows(&key.identity).await {
            Ok(marks) => marks.into_iter().map(|mark| (mark.path.clone(), mark)).collect(),
            Err(error) => {
                tracing::warn!(%error, "reading pins and usage failed");
                HashMap::new()
            }
        }
    }
}

/// The reason why a file has no text.
enum NoText {
    TooLarge { bytes: u64 },
    NotText,
    Unreadable(BackendError),
}

impl NoText {
    fn at(self, mount: Mount, path: &MemoryPath) -> StoreError {
        match self {
            Self::TooLarge { bytes } => too_large_error(path, bytes).into(),
            Self::NotText => CommandError::NotText { path: path.clone() }.into(),
            Self::Unreadable(error) => backend_refusal(mount, path)(error),
        }
    }
}

/// Returns the texts of files, in their order, from the cache where the file has the same stamp.
async fn cached_texts(root: &Root, files: &[WalkedFile]) -> Vec<Result<Arc<str>, NoText>> {
    let cached: Vec<Option<Arc<str>>> = {
        let mut cache = root.cache();
        files.iter().map(|file| cache.texts.get(&file.path, file.stat.stamp)).collect()
    };
    let uncached = files.iter().zip(&cached).filter(|(_, text)| text.is_none());
    let paths: Vec<_> = uncached.map(|(file, _)| file.path.clone()).collect();
    let mut reads = match paths.as_slice() {
        [] => Vec::new(),
        paths => root.backend.read_many(paths, MEMORY_BYTES_MAX).await,
    }
    .into_iter();
    let text = |(file, cached): (&WalkedFile, Option<Arc<str>>)| {
        if let Some(text) = cached {
            return Ok(text);
        }
        let read = reads.next().expect("a backend answers for each file");
        let read = read.map_err(NoText::Unreadable)?;
        if !read.is_whole() {
            return Err(NoText::TooLarge { bytes: read.stat.bytes });
        }
        let text: Arc<str> = command::text_of(&read.bytes).ok_or(NoText::NotText)?.into();
        if !read.stat.recent {
            root.cache().texts.insert(&file.path, read.stat.stamp, Arc::clone(&text));
        }
        Ok(text)
    };
    files.iter().zip(cached).map(text).collect()
}

/// Returns the rows of a walk, without files that are too deep for a memory path.
fn rows(mount: Mount, walk: &Walk) -> Vec<FolderRow> {
    let mut rows = Vec::with_capacity(walk.files.len() + walk.folders.len());
    for file in &walk.files {
        let Ok(path) = virtual_path(mount, file.path.clone()) else { continue };
        rows.push(FolderRow { bytes: file.stat.bytes, path: path.to_string(), note: None });
    }
    for folder in &walk.folders {
        let Ok(path) = virtual_path(mount, folder.path.clone()) else { continue };
        rows.push(FolderRow { bytes: folder.bytes, path: format!("{path}/"), note: None });
    }
    rows
}

/// Truncates the rows to those that are shown. Returns the number of rows in reach that are not shown.
fn truncate_rows(rows: &mut Vec<FolderRow>, in_reach: usize) -> usize {
    rows.sort_by(|a, b| a.path.cmp(&b.path));
    rows.truncate(LISTED_PATHS_MAX);
    in_reach.saturating_sub(rows.len())
}

/// Checks whether a view asks for a part of the file.
const fn is_part(lines: &ViewRange) -> bool {
    !matches!(lines, ViewRange::Whole)
}

//! Reading of context files: without following links, in parallel if there are many, and from a
//! cache if nothing changed.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::cache::Cache;
use memory::context_file::{ImportRef, find_imports};
use memory::document::Revision;
use memory::limits::{
    CONTEXT_BYTES_MAX, CONTEXT_FILE_BYTES_MAX, CONTEXT_FILES_MAX, IMPORT_DEPTH_MAX,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::load::ContextFileSet;
use crate::backend::local::{RootDir, read_contained, stat_following_links, stat_with_link_check};
use crate::backend::{BackendError, FileKind, FileRead, Stamp, Stat};

/// The reason why a context file is not loaded. The text has no path, since a model may be shown it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, strum::EnumIter, Serialize, Deserialize,
)]
pub enum LoadSkipReason {
    /// Its folder is not trusted.
    #[error("its folder is not trusted")]
    Untrusted,
    /// The same file is loaded already, under this name or another.
    #[error("the same file is already loaded")]
    SameFile,
    /// A file with the same text is loaded already.
    #[error("a file with the same text is already loaded")]
    SameText,
    /// The host itself shows it to its model.
    #[error("the host loads it itself")]
    LoadedByHost,
    /// It is a link out of the folder that it may be in, or is behind such a link.
    #[error("a link that is not followed")]
    Link,
    /// It is a pipe, a device or a folder.
    #[error("not a file")]
    NotAFile,
    /// It is larger than a context file may be.
    #[error("larger than {CONTEXT_FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// Its bytes are not text.
    #[error("not UTF-8 text")]
    NotText,
    /// The system refuses to read it.
    #[error("cannot be read")]
    Unreadable,
    /// The load has its maximum number of files.
    #[error("more than {CONTEXT_FILES_MAX} files")]
    TooMany,
    /// The load has its maximum number of bytes.
    #[error("all files together are larger than {CONTEXT_BYTES_MAX} bytes")]
    TooMuch,
    /// The host passes on fewer bytes.
    #[error("the host passes on no more bytes")]
    NoRoom,
    /// An import names a URL.
    #[error("a URL is not loaded")]
    Url,
    /// An import leads out of the folders that it may import from.
    #[error("outside of the folders that it may import from")]
    Outside,
    /// An import names a hidden file, or one of git.
    #[error("a hidden file is not imported")]
    Hidden,
    /// An import names a file that does not exist. The import stays as text.
    #[error("no such file")]
    Missing,
    /// A file has more imports than are followed.
    #[error("more imports than are followed")]
    TooManyImports,
    /// Imports are nested deeper than are followed. The import stays as text.
    #[error("imports nest deeper than {IMPORT_DEPTH_MAX}")]
    TooDeep,
}

/// The text of a file, with its imports.
#[derive(Debug)]
pub(super) struct ParsedFile {
    pub(super) text: Arc<str>,
    pub(super) revision: Revision,
    pub(super) imports: Vec<ImportRef>,
    pub(super) has_more_imports: bool,
}

/// The real location of a file: below a folder that it may be read in, without links.
#[derive(Debug)]
pub(super) struct ResolvedFile {
    pub(super) folder: RootDir,
    pub(super) file: String,
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
}

/// The kind and stat of a path, with links followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathStat {
    pub(super) kind: FileKind,
    pub(super) stat: Stat,
    /// Whether the path itself is a link.
    pub(super) is_link: bool,
}

/// The paths that a load examined, with their stamps.
#[derive(Clone, Debug, Default)]
pub(super) struct StatSnapshot {
    stats: Vec<(PathBuf, Option<Stamp>)>,
    /// Whether any file may still change without a new stamp.
    has_recent: bool,
}

impl StatSnapshot {
    /// Returns the stat of a path, and records it.
    pub(super) fn stat(&mut self, path: &Path) -> Option<PathStat> {
        let stat = stat_with_link_check(path);
        let stat = stat.map(|((kind, stat), is_link)| PathStat { kind, stat, is_link });
        self.has_recent |= stat.is_some_and(|stat| stat.stat.recent);
        self.stats.push((path.to_owned(), stat.map(|stat| stat.stat.stamp)));
        stat
    }

    /// Checks whether all stamps are unchanged, with one `stat` of each path.
    fn is_unchanged(&self) -> bool {
        let is_same = |(path, stamp): &(PathBuf, Option<Stamp>)| {
            stat_following_links(path).map(|(_, stat)| stat.stamp) == *stamp
        };
        self.stats.iter().all(is_same)
    }
}

/// A cache of context files and loads for one process. An entry is used only while the stamps of its files are
/// unchanged.
#[derive(Debug, Default)]
pub struct ContextCache {
    texts: Mutex<Cache<PathBuf, (Stamp, Arc<ParsedFile>), CACHED_BYTES_MAX>>,
    loads: Mutex<Cache<LoadCacheKey, CachedLoad, CACHED_LOADS_MAX>>,
}

/// A cached load, with the stamps of its files.
#[derive(Clone, Debug)]
struct CachedLoad {
    stats: Arc<StatSnapshot>,
    loaded: Arc<ContextFileSet>,
}

/// The inputs of a load besides the files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LoadCacheKey {
    /// The top of the project, and the folder in it.
    pub(super) project: Option<(PathBuf, PathBuf)>,
    pub(super) locations: Vec<PathBuf>,
    pub(super) trusted: Vec<PathBuf>,
    pub(super) host_loaded: Vec<String>,
}

/// Bytes of texts that are cached: four folders' worth.
const CACHED_BYTES_MAX: usize = 4 * CONTEXT_BYTES_MAX;

/// Loads that are cached: the folders that a person's agents work in.
const CACHED_LOADS_MAX: usize = 32;

impl ContextCache {
    /// Returns a cached load, if the stamps of its files are unchanged.
    pub(super) fn get_load(&self, key: &LoadCacheKey) -> Option<Arc<ContextFileSet>> {
        let CachedLoad { stats, loaded } = self.loads.lock().get(key).cloned()?;
        stats.is_unchanged().then_some(loaded)
    }

    /// Caches a load, unless a file may still change without a new stamp.
    pub(super) fn insert_load(
        &self,
        key: LoadCacheKey,
        stats: StatSnapshot,
        loaded: &Arc<ContextFileSet>,
    ) {
        if !stats.has_recent {
            let load = CachedLoad { stats: Arc::new(stats), loaded: Arc::clone(loaded) };
            self.loads.lock().insert(key, load);
        }
    }

    fn text(&self, file: &ResolvedFile) -> Option<Arc<ParsedFile>> {
        let mut texts = self.texts.lock();
        let (stamp, text) = texts.get(&file.path)?;
        (*stamp == file.stamp).then(|| Arc::clone(text))
    }

    fn insert_text(&self, file: &ResolvedFile, stat: Stat, text: &Arc<ParsedFile>) {
        if !stat.recent {
            // The path counts too, so that empty files have a weight.
            let bytes = text.text.len() + file.path.as_os_str().len();
            let entry = (stat.stamp, Arc::clone(text));
            self.texts.lock().insert_weighted(file.path.clone(), entry, bytes);
        }
    }
}

/// Number of unread files for each thread. Fewer files are not worth starting a thread.
const READS_PER_THREAD: usize = 16;

/// Maximum number of threads that read in parallel.
const THREADS_MAX: usize = 4;

/// Reads files and finds their imports; in parallel if many of them are not cached.
pub(super) fn read_all(
    files: &[&ResolvedFile],
    cache: &ContextCache,
) -> Vec<Result<Arc<ParsedFile>, LoadSkipReason>> {
    let entries: Vec<_> = files.iter().map(|&file| (file, cache.text(file))).collect();
    let unread = entries.iter().filter(|(_, text)| text.is_none()).count();
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = (unread / READS_PER_THREAD).min(THREADS_MAX).min(cores);
    let read = |(file, text): (&ResolvedFile, Option<Arc<ParsedFile>>)| match text {
        Some(text) => Ok(text),
        None => read(file, cache),
    };
    if threads <= 1 {
        return entries.into_iter().map(read).collect();
    }
    let per_thread = entries.len().div_ceil(threads);
    let mut entries = entries.into_iter();
    std::thread::scope(|scope| {
        let parts =
            std::iter::repeat_with(|| entries.by_ref().take(per_thread).collect::<Vec<_>>());
        let threads: Vec<_> = parts
            .take(threads)
            .map(|batch| scope.spawn(move || batch.into_iter().map(read).collect::<Vec<_>>()))
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    })
}

fn read(file: &ResolvedFile, cache: &ContextCache) -> Result<Arc<ParsedFile>, LoadSkipReason> {
    let read = read_contained(&file.folder, &file.file, CONTEXT_FILE_BYTES_MAX);
    let read = read.map_err(|error| match error {
        BackendError::Escapes(_) => LoadSkipReason::Link,
        BackendError::WrongKind => LoadSkipReason::NotAFile,
        _ => LoadSkipReason::Unreadable,
    })?;
    parse(file, read, cache)
}

fn parse(
    file: &ResolvedFile,
    read: FileRead,
    cache: &ContextCache,
) -> Result<Arc<ParsedFile>, LoadSkipReason> {
    if !read.is_whole() {
        return Err(LoadSkipReason::TooLarge);
    }
    let text = String::from_utf8(read.bytes).map_err(|_| LoadSkipReason::NotText)?;
    if text.contains('\0') {
        return Err(LoadSkipReason::NotText);
    }
    let (imports, has_more_imports) = find_imports(&text);
    let revision = Revision::digest(text.as_bytes());
    let text = Arc::new(ParsedFile { text: Arc::from(text), revision, imports, has_more_imports });
    cache.insert_text(file, read.stat, &text);
    Ok(text)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files that are read are made by hand")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::backend::local::Privacy;

    fn place(base: &Path, folders: &[&str], file: &str) -> ResolvedFile {
        let folder = RootDir::new(base.to_owned(), folders, Privacy::Shared);
        let path = folder.path().join(file);
        let stamp = stat_following_links(&path).unwrap().1.stamp;
        ResolvedFile { folder, file: file.to_owned(), path, stamp }
    }

    #[test]
    fn a_file_replaced_by_a_link_is_not_read() {
        let top = tempfile::tempdir().unwrap();
        let base = top.path().join("project");
        fs::create_dir_all(base.join("sub")).unwrap();
        fs::create_dir(top.path().join("outside")).unwrap();
        for folder in [base.join("sub"), top.path().join("outside")] {
            fs::write(folder.join("a.md"), "text").unwrap();
        }
        let whole = place(&base, &["sub"], "a.md");
        let text = |place: &ResolvedFile| {
            read(place, &ContextCache::default()).map(|parsed| parsed.text.to_string())
        };
        assert_eq!(text(&whole), Ok("text".to_owned()));
        fs::remove_file(base.join("sub/a.md")).unwrap();
        symlink("../../outside/a.md", base.join("sub/a.md")).unwrap();
        assert_eq!(text(&whole), Err(LoadSkipReason::NotAFile));
        fs::remove_dir_all(base.join("sub")).unwrap();
        symlink("../outside", base.join("sub")).unwrap();
        assert_eq!(text(&whole), Err(LoadSkipReason::Link));
    }

    #[test]
    fn many_files_are_returned_in_order() {
        let top = tempfile::tempdir().unwrap();
        let count = READS_PER_THREAD * THREADS_MAX;
        let names: Vec<_> = (0..count).map(|number| format!("{number}.md")).collect();
        for name in &names {
            fs::write(top.path().join(name), name).unwrap();
        }
        let places: Vec<_> = names.iter().map(|name| place(top.path(), &[], name)).collect();
        let places: Vec<_> = places.iter().collect();
        let texts = read_all(&places, &ContextCache::default());
        assert_eq!(texts.len(), names.len());
        for (text, name) in texts.into_iter().zip(&names) {
            assert_eq!(*text.unwrap().text, **name);
        }
    }
}

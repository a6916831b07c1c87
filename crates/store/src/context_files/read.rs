//! Reading context files: through no link, several at once where that is worth it, and again only if they changed.

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

use super::load::ContextFileSet;
use crate::backend::local::{RootDir, read_contained, stat_following_links, stat_with_link_check};
use crate::backend::{BackendError, FileKind, FileRead, Stamp, Stat};

/// Why a context file is not loaded. Says nothing of where it is: a model may be shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadSkipReason {
    /// Nobody trusts its folder.
    #[error("its folder is not trusted")]
    Untrusted,
    /// The same file was loaded before, by this name or another.
    #[error("the same file is loaded before")]
    SameFile,
    /// A file with the same text was loaded before.
    #[error("a file with the same text is loaded before")]
    SameText,
    /// The host shows it to its model itself.
    #[error("the host loads it itself")]
    LoadedByHost,
    /// It is a link that leads to where it may not, or is behind one.
    #[error("a link that is not followed")]
    Link,
    /// It is a pipe, a device, a folder.
    #[error("not a file")]
    NotAFile,
    /// It is larger than a context file may be.
    #[error("larger than {CONTEXT_FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// Its bytes are no text.
    #[error("not UTF-8 text")]
    NotText,
    /// The system does not let it be read.
    #[error("cannot be read")]
    Unreadable,
    /// There are too many others.
    #[error("more than {CONTEXT_FILES_MAX} files")]
    TooMany,
    /// The others have too many bytes.
    #[error("all files together are larger than {CONTEXT_BYTES_MAX} bytes")]
    TooMuch,
    /// An import asks for what is on the net.
    #[error("a URL is not loaded")]
    Url,
    /// An import leads out of where it may.
    #[error("outside of the folders that it may import from")]
    Outside,
    /// An import asks for a file that is hidden, or git's.
    #[error("a hidden file is not imported")]
    Hidden,
    /// An import asks for a file that does not exist. Its text stays as it is.
    #[error("no such file")]
    Missing,
    /// A file asks for more imports than are looked at.
    #[error("more imports than are looked at")]
    TooManyImports,
    /// A file imports others deeper than is looked at. Its text stays as it is.
    #[error("imports nest deeper than {IMPORT_DEPTH_MAX}")]
    TooDeep,
}

/// A file with its imports found.
#[derive(Debug)]
pub(super) struct ParsedFile {
    pub(super) text: Arc<str>,
    pub(super) revision: Revision,
    pub(super) imports: Vec<ImportRef>,
    pub(super) has_more_imports: bool,
}

/// Where a file really is: below a folder that it may be read in, through no link.
#[derive(Debug)]
pub(super) struct ResolvedFile {
    pub(super) folder: RootDir,
    pub(super) file: String,
    /// The whole way.
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
}

/// What is at a path, links followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathStat {
    pub(super) kind: FileKind,
    pub(super) stat: Stat,
    /// Whether the path itself is a link.
    pub(super) is_link: bool,
}

/// What was looked at in a load, and what was there.
#[derive(Clone, Debug, Default)]
pub(super) struct StatSnapshot {
    stats: Vec<(PathBuf, Option<Stamp>)>,
    /// Whether one of them may change yet without its stamp telling.
    has_recent: bool,
}

impl StatSnapshot {
    /// Looks at a path, and remembers what was there.
    pub(super) fn stat(&mut self, path: &Path) -> Option<PathStat> {
        let found = stat_with_link_check(path);
        let found = found.map(|((kind, stat), is_link)| PathStat { kind, stat, is_link });
        self.has_recent |= found.is_some_and(|found| found.stat.recent);
        self.stats.push((path.to_owned(), found.map(|found| found.stat.stamp)));
        found
    }

    /// Tells whether everything is as it was: one look at each.
    fn is_unchanged(&self) -> bool {
        let same = |(path, known): &(PathBuf, Option<Stamp>)| {
            stat_following_links(path).map(|(_, stat)| stat.stamp) == *known
        };
        self.stats.iter().all(same)
    }
}

/// What loads of one process remember. Only what no file tells otherwise is ever used.
#[derive(Debug, Default)]
pub struct ContextCache {
    texts: Mutex<Cache<PathBuf, (Stamp, Arc<ParsedFile>), CACHED_BYTES_MAX>>,
    loads: Mutex<Cache<LoadCacheKey, CachedLoad, CACHED_LOADS_MAX>>,
}

/// What was loaded, and what it came from.
#[derive(Clone, Debug)]
struct CachedLoad {
    stats: Arc<StatSnapshot>,
    loaded: Arc<ContextFileSet>,
}

/// What a load depends on beside the files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LoadCacheKey {
    pub(super) project: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) locations: Vec<PathBuf>,
    pub(super) trusted: Vec<PathBuf>,
    pub(super) host_loaded: Vec<String>,
}

/// Bytes of texts that are cached: four folders' worth.
const CACHED_BYTES_MAX: usize = 4 * CONTEXT_BYTES_MAX;

/// Loads that are cached: the folders that a person's agents work in.
const CACHED_LOADS_MAX: usize = 32;

impl ContextCache {
    /// Returns what was loaded before, if nothing that it came from has changed.
    pub(super) fn get_load(&self, question: &LoadCacheKey) -> Option<Arc<ContextFileSet>> {
        let CachedLoad { stats: probes, loaded } = self.loads.lock().get(question).cloned()?;
        probes.is_unchanged().then_some(loaded)
    }

    /// Caches what was loaded, unless a file may change yet and leave the same stamp.
    pub(super) fn insert_load(
        &self,
        question: LoadCacheKey,
        probes: StatSnapshot,
        loaded: &Arc<ContextFileSet>,
    ) {
        if !probes.has_recent {
            let load = CachedLoad { stats: Arc::new(probes), loaded: Arc::clone(loaded) };
            self.loads.lock().insert(question, load);
        }
    }

    fn text(&self, place: &ResolvedFile) -> Option<Arc<ParsedFile>> {
        let mut texts = self.texts.lock();
        let (stamp, text) = texts.get(&place.path)?;
        (*stamp == place.stamp).then(|| Arc::clone(text))
    }

    fn insert_text(&self, place: &ResolvedFile, stat: Stat, text: &Arc<ParsedFile>) {
        if !stat.recent {
            // Its path is kept too, so that empty files weigh something.
            let bytes = text.text.len() + place.path.as_os_str().len();
            let entry = (stat.stamp, Arc::clone(text));
            self.texts.lock().insert_weighted(place.path.clone(), entry, bytes);
        }
    }
}

/// Unread files that one thread reads before a second one is worth its start.
const FILES_PER_THREAD: usize = 16;

/// Threads that read at the same time.
const THREADS_MAX: usize = 4;

/// Reads files and finds their imports; several at once where many were not read before.
pub(super) fn read_all(
    places: &[&ResolvedFile],
    cache: &ContextCache,
) -> Vec<Result<Arc<ParsedFile>, LoadSkipReason>> {
    let known: Vec<_> = places.iter().map(|&place| (place, cache.text(place))).collect();
    let unread = known.iter().filter(|(_, text)| text.is_none()).count();
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = (unread / FILES_PER_THREAD).min(THREADS_MAX).min(cores);
    let read = |(place, text): (&ResolvedFile, Option<Arc<ParsedFile>>)| match text {
        Some(text) => Ok(text),
        None => read(place, cache),
    };
    if threads <= 1 {
        return known.into_iter().map(read).collect();
    }
    let in_each = known.len().div_ceil(threads);
    let mut known = known.into_iter();
    std::thread::scope(|scope| {
        let parts = std::iter::repeat_with(|| known.by_ref().take(in_each).collect::<Vec<_>>());
        let threads: Vec<_> = parts
            .take(threads)
            .map(|part| scope.spawn(move || part.into_iter().map(read).collect::<Vec<_>>()))
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    })
}

fn read(place: &ResolvedFile, cache: &ContextCache) -> Result<Arc<ParsedFile>, LoadSkipReason> {
    let read = read_contained(&place.folder, &place.file, CONTEXT_FILE_BYTES_MAX);
    let read = read.map_err(|error| match error {
        BackendError::Escapes(_) => LoadSkipReason::Link,
        BackendError::WrongKind => LoadSkipReason::NotAFile,
        _ => LoadSkipReason::Unreadable,
    })?;
    parse(place, read, cache)
}

fn parse(
    place: &ResolvedFile,
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
    let (asked, asks_more) = find_imports(&text);
    let revision = Revision::digest(text.as_bytes());
    let text = Arc::new(ParsedFile {
        text: Arc::from(text),
        revision,
        imports: asked,
        has_more_imports: asks_more,
    });
    cache.insert_text(place, read.stat, &text);
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
    fn what_became_a_link_is_not_read() {
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
    fn many_files_are_told_in_their_order() {
        let top = tempfile::tempdir().unwrap();
        let count = FILES_PER_THREAD * THREADS_MAX;
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

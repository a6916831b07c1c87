//! Answers that the kernel has at hand.
//!
//! Handing work to a thread that may wait takes longer than reading a memory that is cached. So the
//! question is put on the spot in a way that does not wait for the disk: the way must be in the
//! kernel's cache of names, and the bytes in its cache of pages. Whatever else turns up, an error
//! too, is no answer: the way that may wait asks again and says what is wrong.

use memory::path::RelativePath;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::Facts;
use super::anchor::Anchor;
use super::instant::Instant;
use crate::backend::{Kind, Read, Stamp};

/// Through no link.
const UNLINKED: ResolveFlags =
    ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::CACHED);

/// Containment as everywhere: below the folder that a person chose, and through no link.
const BENEATH: ResolveFlags = UNLINKED.union(ResolveFlags::BENEATH);

/// Reads a memory, up to `max` bytes of it. No name on the way to it may be `..`.
pub(super) fn read(anchor: &Anchor, path: &str, max: usize) -> Option<Read> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = open(anchor, Some(path), flags)?;
    let looked_at = Instant::now();
    let facts = fstat(&file).ok()?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return None;
    }
    let stat = Facts::from(&facts).stat(looked_at);
    // One more than there should be, to see that it is the end.
    let wanted = usize::try_from(stat.bytes).ok()?.saturating_add(1).min(max);
    let mut bytes = vec![0; wanted];
    let into = &mut [std::io::IoSliceMut::new(&mut bytes)];
    let count = preadv2(&file, into, 0, ReadWriteFlags::NOWAIT).ok()?;
    if count != wanted && u64::try_from(count) != Ok(stat.bytes) {
        return None;
    }
    bytes.truncate(count);
    Some(Read { bytes, stat })
}

/// Returns the version of a memory's file.
pub(super) fn stamp(anchor: &Anchor, path: &RelativePath) -> Option<Stamp> {
    let file = open(anchor, Some(path.as_str()), OFlags::PATH | OFlags::NOFOLLOW)?;
    let facts = fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
    is_file.then(|| Facts::from(&facts).stamp())
}

/// The kernel would have to look on the disk, or something is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAtHand;

/// Tells what is at a path. A name that is new to the kernel is looked up in its folder, whose
/// entries are cached with it.
pub(super) fn kind(anchor: &Anchor, path: &RelativePath) -> Result<Option<Kind>, NotAtHand> {
    let parent = path.parent();
    let parent = parent.as_ref().map(RelativePath::as_str);
    let folder = open(anchor, parent, OFlags::PATH | OFlags::DIRECTORY).ok_or(NotAtHand)?;
    match statat(&folder, path.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => Ok(Some(match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            _ => Kind::Other,
        })),
        Err(Errno::NOENT) => Ok(None),
        Err(_) => Err(NotAtHand),
    }
}

fn open(anchor: &Anchor, path: Option<&str>, flags: OFlags) -> Option<OwnedFd> {
    let (base, mut way) = anchor.way();
    if let Some(path) = path {
        way = if way.is_empty() { path.to_owned() } else { [&way, "/", path].concat() };
    } else if way.is_empty() {
        ".".clone_into(&mut way);
    }
    let flags = flags | OFlags::CLOEXEC;
    // Where no link leads to the folder either, the whole way is gone at once. No name on it is `..`, so
    // without links there is no way out.
    if let Ok(file) = openat2(CWD, base.join(&way), flags, Mode::empty(), UNLINKED) {
        return Some(file);
    }
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let base = openat2(CWD, base, folder, Mode::empty(), ResolveFlags::CACHED).ok()?;
    openat2(&base, &way, flags, Mode::empty(), BENEATH).ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files that are looked at are made by hand")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::anchor::Privacy;
    use super::super::{kind as kind_waiting, read_in};
    use super::*;
    use crate::backend::BackendError;

    fn path(text: &str) -> RelativePath {
        RelativePath::parse(text).unwrap()
    }

    /// The slow way, which is asked when the quick one has no answer.
    fn read_waiting(
        anchor: &Anchor,
        path: &RelativePath,
        max: usize,
    ) -> Result<Read, BackendError> {
        let folder = anchor.folder_of(path)?.ok_or(BackendError::NotFound)?;
        read_in(&folder, path.file_name(), max)
    }

    #[test]
    fn both_ways_give_the_same_answers() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("empty.md"), "").unwrap();
        fs::write(root.join("sub/text.md"), "twelve bytes").unwrap();
        fs::write(folder.path().join("outside.md"), "outside").unwrap();
        symlink("sub/text.md", root.join("link.md")).unwrap();
        symlink("sub", root.join("way")).unwrap();
        symlink("../outside.md", root.join("out.md")).unwrap();
        // The folder that a person chose may be reached through links.
        symlink(folder.path(), folder.path().join("chosen")).unwrap();
        for base in [folder.path().to_owned(), folder.path().join("chosen")] {
            compare(&Anchor::new(base, &["root"], Privacy::Private));
        }
    }

    fn compare(anchor: &Anchor) {
        let names = [
            "empty.md",
            "sub/text.md",
            "sub",
            "link.md",
            "way/text.md",
            "out.md",
            "gone.md",
            "sub/gone.md",
            "gone/gone.md",
            "empty.md/below.md",
        ];
        for name in names {
            for max in [0, 1, 11, 12, 13, 4_096] {
                // What the kernel has cached is its own affair, so no answer is an answer here.
                if let Some(read) = read(anchor, name, max) {
                    if let Some(stamp) = stamp(anchor, &path(name)) {
                        assert_eq!(stamp, read.stat.stamp, "{name}");
                    }
                    let waiting = read_waiting(anchor, &path(name), max).unwrap();
                    let seen = |read: Read| (read.bytes, read.stat.bytes, read.stat.stamp);
                    assert_eq!(seen(read), seen(waiting), "{name}, {max}");
                }
            }
            if let Ok(kind) = kind(anchor, &path(name)) {
                assert_eq!(kind, kind_waiting(anchor, &path(name)).unwrap(), "{name}");
            }
        }
        for name in ["sub", "link.md", "way/text.md", "out.md", "gone.md"] {
            assert!(read(anchor, name, 4_096).is_none(), "{name} is no memory");
        }
        assert!(kind(anchor, &path("way/text.md")).is_err(), "a link on the way is not followed");
    }
}

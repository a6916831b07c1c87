//! The hidden file names that a write uses beside memories.
//!
//! There are two kinds. A *temporary* name has bytes of a write, or checked content that may be
//! removed: a sweep always removes it. A *backup* name has content that a write moved aside and may
//! not have checked yet. It contains the original name, so that an external edit at that moment can
//! be restored. Both are hidden, so no listing shows them. Both have a fixed format, so a sweep
//! finds those that a crash left.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::Dir;
use memory::limits::{OUTSIDE_COPIES_MAX, SEGMENT_BYTES_MAX};

use super::write::rename_noreplace;

const PREFIX: &str = ".lukasa-";

const TEMPORARY: &str = "tmp";

const BACKUP: &str = "aside.";

/// The kind of a hidden name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TempKind<'a> {
    /// Temporary content, which may be removed.
    Partial,
    /// A backup, with the original name if the hidden name had room for it.
    Backup(Option<&'a str>),
}

/// Returns the kind of a hidden name of this format.
pub(super) fn kind_of(name: &str) -> Option<TempKind<'_>> {
    let (_, kind) = name.strip_prefix(PREFIX)?.split_once('.')?;
    match kind.strip_prefix(BACKUP) {
        Some("") => Some(TempKind::Backup(None)),
        Some(original_name) => Some(TempKind::Backup(Some(original_name))),
        None => (kind == TEMPORARY).then_some(TempKind::Partial),
    }
}

/// Returns a new name for temporary content.
pub(super) fn temporary_name() -> String {
    format!("{}.{TEMPORARY}", next_suffix())
}

/// Returns a new name for a backup of the file `name`.
pub(super) fn backup_name(name: &str) -> String {
    let next = next_suffix();
    let name_of_backup = format!("{next}.{BACKUP}{name}");
    if name_of_backup.len() <= SEGMENT_BYTES_MAX {
        name_of_backup
    } else {
        format!("{next}.{BACKUP}")
    }
}

fn next_suffix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{:x}-{number:x}", std::process::id())
}

/// Renames a hidden file or folder to its original name if that is free, or else to one beside it. Returns the
/// name.
pub(super) fn restore_hidden(
    folder: &Dir,
    hidden: &str,
    original_name: Option<&str>,
) -> io::Result<String> {
    let siblings = (1..=OUTSIDE_COPIES_MAX).map(|number| sibling_name(original_name, number));
    for name in original_name.map(str::to_owned).into_iter().chain(siblings) {
        match rename_noreplace(folder, hidden, folder, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|()| name),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Returns a name such as `notes.outside-1.md` for `notes.md`.
fn sibling_name(original_name: Option<&str>, number: usize) -> String {
    let original_name = Path::new(original_name.unwrap_or("memory.md"));
    let part =
        |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).map(str::to_owned);
    let stem = part(original_name.file_stem()).unwrap_or_default();
    let extension = part(original_name.extension())
        .map(|extension| format!(".{extension}"))
        .unwrap_or_default();
    let name = format!("{stem}.outside-{number}{extension}");
    if name.len() <= SEGMENT_BYTES_MAX { name } else { format!("memory.outside-{number}.md") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_name_encodes_its_kind_and_original_name() {
        let long = "m".repeat(SEGMENT_BYTES_MAX);
        for (name, expected) in [
            (temporary_name().as_str(), Some(TempKind::Partial)),
            (&backup_name("a.md"), Some(TempKind::Backup(Some("a.md")))),
            (&backup_name("a.tmp"), Some(TempKind::Backup(Some("a.tmp")))),
            (&backup_name(&long), Some(TempKind::Backup(None))),
            (".lukasa-1f-0.tmp", Some(TempKind::Partial)),
            (".lukasa-1f-0.md", None),
            (".lukasa-.x.tmp", None),
            ("a.md", None),
        ] {
            assert_eq!(kind_of(name), expected, "{name}");
        }
    }

    #[test]
    fn a_sibling_name_keeps_its_extension_and_fits_the_limit() {
        for (place, expected) in [
            (Some("a.md"), "a.outside-1.md"),
            (Some("folder"), "folder.outside-1"),
            (Some(&*format!("{}.md", "m".repeat(252))), "memory.outside-1.md"),
            (None, "memory.outside-1.md"),
        ] {
            assert_eq!(sibling_name(place, 1), expected, "{place:?}");
        }
    }
}

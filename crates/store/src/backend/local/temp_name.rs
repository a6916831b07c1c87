//! The hidden names beside memories, for the length of a write.
//!
//! There are two kinds. A *temporary* name has bytes of ours, or what was looked at and may go: a
//! sweep removes it whatever it holds. An *aside* name has what a write took out of its place and may
//! not have looked at yet; it carries the name of that place, so that what somebody outside wrote at
//! that moment can be brought back. Both are hidden, so no listing shows them, and fixed in shape, so
//! that a sweep finds what a crash left.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::Dir;
use memory::limits::{OUTSIDE_COPIES_MAX, SEGMENT_BYTES_MAX};

use super::write::rename_noreplace;

const PREFIX: &str = ".lukasa-";

const TEMPORARY: &str = "tmp";

const BACKUP: &str = "aside.";

/// What a hidden name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TempKind<'a> {
    /// Ours to remove.
    Partial,
    /// What was at this name, if that fitted in.
    Backup(Option<&'a str>),
}

/// Returns what a name stands for, if it is one of ours.
pub(super) fn kind_of(name: &str) -> Option<TempKind<'_>> {
    let (_, kind) = name.strip_prefix(PREFIX)?.split_once('.')?;
    match kind.strip_prefix(BACKUP) {
        Some("") => Some(TempKind::Backup(None)),
        Some(place) => Some(TempKind::Backup(Some(place))),
        None => (kind == TEMPORARY).then_some(TempKind::Partial),
    }
}

/// Returns a name for bytes of ours.
pub(super) fn temporary_name() -> String {
    format!("{}.{TEMPORARY}", next_suffix())
}

/// Returns a name for what is taken out of its place at `name`.
pub(super) fn backup_name(name: &str) -> String {
    let next = next_suffix();
    let aside = format!("{next}.{BACKUP}{name}");
    if aside.len() <= SEGMENT_BYTES_MAX { aside } else { format!("{next}.{BACKUP}") }
}

fn next_suffix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{:x}-{number:x}", std::process::id())
}

/// Brings something hidden back into sight in its folder: to its own name if nothing else has that,
/// else to one beside it. Returns the name.
pub(super) fn restore_hidden(
    folder: &Dir,
    hidden: &str,
    place: Option<&str>,
) -> io::Result<String> {
    let beside = (1..=OUTSIDE_COPIES_MAX).map(|number| sibling_name(place, number));
    for name in place.map(str::to_owned).into_iter().chain(beside) {
        match rename_noreplace(folder, hidden, folder, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            moved => return moved.map(|()| name),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Returns a name like `notes.outside-1.md`, for `notes.md`.
fn sibling_name(place: Option<&str>, number: usize) -> String {
    let place = Path::new(place.unwrap_or("memory.md"));
    let part =
        |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).map(str::to_owned);
    let stem = part(place.file_stem()).unwrap_or_default();
    let ending = part(place.extension()).map(|ending| format!(".{ending}")).unwrap_or_default();
    let name = format!("{stem}.outside-{number}{ending}");
    if name.len() <= SEGMENT_BYTES_MAX { name } else { format!("memory.outside-{number}.md") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_name_says_what_it_stands_for() {
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
    fn a_name_beside_another_keeps_its_ending_and_fits() {
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

//! Replacements for systems that lack the calls of `linux`. The functions there say what they do.
#![expect(clippy::unnecessary_wraps, reason = "the signatures are those of `linux`")]

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use cap_std::fs::Dir;

use crate::os::{Notice, NoticeQueue};

pub(crate) fn exchange_names(_folder: &Dir, _a: &str, _b: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn rename_to_free(
    _from: &Dir,
    _name: &str,
    _to: &Dir,
    _new_name: &str,
) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn rename_to_free_path(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) const fn hold_file(_folder: &Dir, _name: &str) -> Option<OwnedFd> {
    None
}

pub(crate) const fn sync_file_system(_folder: &Dir) -> io::Result<bool> {
    Ok(false)
}

pub(crate) const fn has_no_links(_path: &Path) -> bool {
    false
}

pub(crate) const fn boot_id() -> Option<String> {
    None
}

pub(in crate::os) const fn lower_thread_priority() -> io::Result<()> {
    Ok(())
}

/// No queue: a system may have notices, but not in the order that is needed.
#[derive(Debug)]
pub(crate) enum FolderNotices {}

impl NoticeQueue for FolderNotices {
    fn open() -> Option<Self> {
        None
    }

    fn watch(&self, _folder: &Dir) -> Option<i32> {
        match *self {}
    }

    fn unwatch(&self, _watch: i32) {
        match *self {}
    }

    fn read(&self, _on_notice: impl FnMut(Notice<'_>)) {
        match *self {}
    }
}

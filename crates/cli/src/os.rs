//! The parts of the command line that differ between operating systems. Those for files are in the crate `store`.

use std::path::{Path, PathBuf};

use crate::service::InitSystem;

/// The allocator, which returns free memory to the system. The one of glibc keeps most of the memory that a task used.
/// Each of its threads has an arena, and memory freed in the middle of an arena stays resident.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Returns the service manager of this system, if it is supported.
pub(crate) const fn service_manager() -> Option<InitSystem> {
    if cfg!(target_os = "linux") {
        Some(InitSystem::Systemd)
    } else if cfg!(target_os = "macos") {
        Some(InitSystem::Launchd)
    } else {
        None
    }
}

/// Returns the folder in which desktop programs keep their settings, from the home folder and the configuration folder.
pub(crate) fn desktop_settings(home: &Path, config: &Path) -> PathBuf {
    if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else {
        config.to_owned()
    }
}

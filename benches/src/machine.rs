//! The description of the machine that a report begins with, and the pinning of processes to a processor.
//!
//! Times can only be compared between runs on the same kind of machine, disk and build.

use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

/// The facts about machine, disk and build that a report names.
#[derive(Debug)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    file_system: String,
    loads: Vec<String>,
    build: &'static str,
}

impl Machine {
    /// Reads the facts of this machine and of the disk that holds `folder`.
    pub(crate) fn detect(folder: &Path) -> anyhow::Result<Self> {
        let folder = std::fs::canonicalize(folder)?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")
            .context("cannot read the mounts; the benches need Linux")?;
        let processor = std::fs::read_to_string("/proc/cpuinfo")?;
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let mut machine = Self {
            cores: std::thread::available_parallelism()?.get(),
            processor: processor_of(&processor).unwrap_or("unknown processor").to_owned(),
            kernel: kernel.trim().to_owned(),
            file_system: file_system_of(&mounts, &folder).unwrap_or_else(|| "unknown".to_owned()),
            loads: Vec::new(),
            build: if cfg!(debug_assertions) {
                "development build: for trying out, not for quoting"
            } else {
                "release build"
            },
        };
        machine.record_load();
        Ok(machine)
    }

    /// Records the load average of the last minute.
    pub(crate) fn record_load(&mut self) {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        self.loads.extend(load.split(' ').next().map(str::to_owned));
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, processor, kernel, file_system, loads, build } = self;
        write!(
            f,
            "{cores} cores ({processor}), Linux {kernel}, files on {file_system}, load of the last \
             minute {} (before, after), {build}.",
            loads.join(", ")
        )
    }
}

fn processor_of(cpuinfo: &str) -> Option<&str> {
    let named = |line: &&str| line.starts_with("model name");
    Some(cpuinfo.lines().find(named)?.split_once(':')?.1.trim())
}

/// Returns the type of the file system that holds a folder.
fn file_system_of(mounts: &str, folder: &Path) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let (location, source) = line.split_once(" - ")?;
        let point = location.split(' ').nth(4)?;
        let kind = source.split(' ').next()?;
        folder.starts_with(point).then_some((point.len(), kind))
    });
    // Of several mounts at one point, the last one is visible.
    mounted.max_by_key(|(length, _)| *length).map(|(_, kind)| kind.to_owned())
}

/// Pins this thread and all threads of these processes to one processor. Their times then do not depend on which
/// processor the kernel wakes a thread on.
pub(crate) fn pin_to_one_processor(processes: &[u32]) -> anyhow::Result<()> {
    set_affinity(processes, 0..1)
}

/// Allows them to run on all processors again.
pub(crate) fn unpin(processes: &[u32]) -> anyhow::Result<()> {
    set_affinity(processes, 0..CpuSet::MAX_CPU)
}

fn set_affinity(processes: &[u32], processors: std::ops::Range<usize>) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    processors.for_each(|processor| set.set(processor));
    sched_setaffinity(None, &set)?;
    for process in processes {
        for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
            let name = thread?.file_name();
            let thread = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            sched_setaffinity(
                Some(thread.context("the name of a thread's folder is no thread id")?),
                &set,
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_last_mount_decides() {
        let mounts = "\
            22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            23 22 0:20 / /dev/shm rw - tmpfs tmpfs rw\n\
            24 22 0:21 / /home rw - xfs /dev/vdb rw\n\
            25 24 0:22 / /home rw - btrfs /dev/vdc rw\n";
        let check = |folder: &str, expected: &str| {
            assert_eq!(file_system_of(mounts, Path::new(folder)).as_deref(), Some(expected));
        };
        check("/srv", "ext4");
        check("/dev/shm/a", "tmpfs");
        check("/dev/shmem", "ext4");
        check("/home/user", "btrfs");
        assert_eq!(file_system_of("", Path::new("/")), None);
    }

    #[test]
    fn the_description_names_the_first_processor() {
        assert_eq!(processor_of("processor\t: 0\nmodel name\t: A B\nmodel name\t: C"), Some("A B"));
        assert_eq!(processor_of(""), None);
    }
}

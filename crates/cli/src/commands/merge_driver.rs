//! `lukasa merge-driver`: merges a memory for git, which calls it with three temporary files.
//!
//! It needs neither settings nor the store, so that a merge of many memories is fast. If Lukasa cannot merge
//! by entry, git merges by line. If git cannot either, because a file is binary, our version stays in place, and git
//! reports a conflict.

use std::ffi::OsStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};

use memory::command::text_of;
use memory::error_code::MemoryErrorCode;
use memory::limits::{MARKER_LENGTH_MAX, MARKER_LENGTH_MIN};
use memory::merge::{MarkerStyle, MergeInput, MergedMemory, merge};

use crate::args::MergeDriver;
use crate::exit::{Failure, Status};
use crate::files;
use crate::render::Output;

/// The folder of the memories in a checkout.
const MEMORIES: &str = ".lukasa/memory";

/// The exit status that tells git of conflicts.
const CONFLICT: Status = Status::Refused;

/// The exit status that tells git that the merge failed. It then ends the merge and changes nothing.
pub(crate) const MERGE_FAILED: u8 = 129;

/// The last exit status that means a merge with conflicts. `git merge-file` returns their number, up to this one.
const MERGE_FILE_CONFLICTS_MAX: i32 = 127;

/// Merges a memory for git. After an error git ends the merge and changes nothing.
pub(crate) fn run(output: &Output, args: &MergeDriver) -> Result<Status, Failure> {
    let driver = Driver::new(args);
    match driver.merge_by_entry()? {
        Ok(MergedMemory { text, conflicts }) => {
            let written = files::overwrite(&args.ours, text.as_bytes());
            written.map_err(|error| Failure::file("write", &args.ours, &error))?;
            Ok(if conflicts == 0 { Status::Done } else { CONFLICT })
        }
        Err(reason) => {
            output.note(&format!("{}: merged by line, because {reason}", args.path.display()));
            driver.merge_by_line()
        }
    }
}

/// The arguments, with the names of the sides.
struct Driver<'a> {
    args: &'a MergeDriver,
    /// Names of branches and subjects of commits, which may be invalid UTF-8.
    labels: [&'a OsStr; 3],
    marker_length: usize,
}

impl<'a> Driver<'a> {
    fn new(args: &'a MergeDriver) -> Self {
        // A version of git before 2.44 passes the placeholders of names on as they are.
        let label = |label: &'a OsStr, placeholder: &str, default: &'a str| {
            if label == placeholder { default.as_ref() } else { label }
        };
        let labels = [
            label(&args.base_label, "%S", "base"),
            label(&args.our_label, "%X", "ours"),
            label(&args.their_label, "%Y", "theirs"),
        ];
        let marker_length = args.marker_length.clamp(MARKER_LENGTH_MIN, MARKER_LENGTH_MAX);
        Self { args, labels, marker_length }
    }

    /// Merges by entry, or returns the reason why that is not possible.
    fn merge_by_entry(&self) -> Result<Result<MergedMemory, String>, Failure> {
        // The attributes of a repository may name the driver for any file.
        if !self.args.path.starts_with(MEMORIES) {
            return Ok(Err("it is no memory".to_owned()));
        }
        let read =
            |path: &Path| files::read(path).map_err(|error| Failure::file("read", path, &error));
        let MergeDriver { base, ours, theirs, .. } = self.args;
        let [base, ours, theirs] = [read(base)?, read(ours)?, read(theirs)?];
        let (Some(base), Some(ours), Some(theirs)) =
            (text_of(&base), text_of(&ours), text_of(&theirs))
        else {
            return Ok(Err("a version is not UTF-8 text".to_owned()));
        };
        let [_, our_label, their_label] = self.labels.map(OsStr::to_string_lossy);
        let markers =
            MarkerStyle { length: self.marker_length, ours: &our_label, theirs: &their_label };
        let input = MergeInput { base, ours, theirs };
        // A broken invariant must not leave our version in place as if it were the merge.
        match catch_unwind(AssertUnwindSafe(|| merge(&input, &markers))) {
            Ok(merged) => Ok(merged.map_err(|error| error.to_string())),
            Err(_) => Ok(Err("of an error in Lukasa, which is reported above".to_owned())),
        }
    }

    /// Has git merge by line.
    fn merge_by_line(&self) -> Result<Status, Failure> {
        let [base_label, our_label, their_label] = self.labels;
        let MergeDriver { base, ours, theirs, .. } = self.args;
        let mut command = Command::new("git");
        command.args(["merge-file", "--quiet"]);
        command.arg(format!("--marker-size={}", self.marker_length));
        for label in [our_label, base_label, their_label] {
            command.arg("-L").arg(label);
        }
        command.arg("--").args([ours, base, theirs]).stdin(Stdio::null());
        let ended = command.status().map_err(|error| {
            Failure::file("run `git merge-file` for", &self.args.path, &error)
                .help("git must be in the search path")
        })?;
        match ended.code() {
            Some(0) => Ok(Status::Done),
            Some(1..=MERGE_FILE_CONFLICTS_MAX) => Ok(CONFLICT),
            // Git merges no binary files either. Its own answer to that is a conflict with our version in place.
            _ if [base, ours, theirs].into_iter().any(|file| is_binary(file)) => Ok(CONFLICT),
            _ => Err(Failure::new(MemoryErrorCode::StorageFailed, "`git merge-file` failed")
                .help("git ends the merge and changes nothing; run the same git command again")),
        }
    }
}

/// Checks whether a file has a zero byte, by which git recognizes binary files.
fn is_binary(path: &Path) -> bool {
    files::read(path).is_ok_and(|bytes| bytes.contains(&0))
}

//! `lukasa export`: writes memories as files, with a manifest of their revisions, pins and usage.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use engine::{Memories, MemoryEntry};
use memory::clock::Timestamp;
use memory::error_code::MemoryErrorCode;
use serde_json::{Value, json};

use crate::app::{App, now};
use crate::args::Export;
use crate::commands::{listing, ls};
use crate::exit::{Failure, Status};
use crate::files::{self, Overwrite};
use crate::render::progress::StepProgress;
use crate::render::{counted, short_path, time};

/// The name of the manifest.
const MANIFEST: &str = "lukasa.json";

/// The number of existing files that the error names; the rest is counted.
const EXISTING_NAMED_MAX: usize = 3;

/// The target of an export.
enum ExportTarget {
    Tar(tar::Builder<BufWriter<io::Stdout>>),
    Folder { folder: PathBuf, overwrite: Overwrite },
}

/// Exports memories.
pub(crate) async fn run(app: &App, args: &Export) -> Result<Status, Failure> {
    let to_stdout = args.to.as_os_str() == "-";
    if to_stdout && app.output.json {
        return Err(Failure::usage("cannot write both the archive and JSON to stdout")
            .help("use `--to DIR` with `--json`"));
    }
    if to_stdout && app.output.style.terminal {
        return Err(Failure::usage("cannot write a tar archive to a terminal")
            .help("use `lukasa export > memories.tar` or `--to DIR`"));
    }
    let memories = app.memories();
    let path = args.path.as_deref().map(|path| app.path(path)).transpose()?;
    let listing = app.wait_with_progress("listing", listing(&memories, path.as_ref())).await?;
    let mut target = if to_stdout {
        ExportTarget::Tar(tar::Builder::new(BufWriter::new(io::stdout())))
    } else {
        let overwrite = if args.force { Overwrite::Always } else { Overwrite::Never };
        reject_existing(&args.to, &listing.memories, overwrite)?;
        ExportTarget::Folder { folder: args.to.clone(), overwrite }
    };
    let (exported, left_out) = write_all(app, &memories, &listing.memories, &mut target).await?;
    let manifest = json!({
        "lukasa": env!("CARGO_PKG_VERSION"),
        "exported_at": time::exact(now()),
        "memories": exported,
    });
    target.write(MANIFEST, format!("{manifest:#}\n").as_bytes(), now())?;
    target.finish()?;
    let left_out = left_out + listing.omitted;
    if app.output.json {
        let to = args.to.display().to_string();
        app.output.value(&json!({ "to": to, "memories": exported.len(), "left_out": left_out }))?;
    }
    app.output.note(&format!("exported {}", counted(exported.len(), "memory", "memories")));
    Ok(if left_out == 0 { Status::Done } else { Status::Refused })
}

/// Number of memories whose texts are in memory together.
const MEMORIES_READ_AT_ONCE: usize = 256;

/// Writes the memories; returns their manifest entries, and the number of memories that could not be read.
async fn write_all(
    app: &App,
    memories: &Memories,
    all: &[MemoryEntry],
    target: &mut ExportTarget,
) -> Result<(Vec<Value>, usize), Failure> {
    let mut exported = Vec::new();
    let mut left_out = 0;
    let mut steps = StepProgress::new("exporting", all.len(), app.shows_progress());
    for part in all.chunks(MEMORIES_READ_AT_ONCE) {
        let paths: Vec<_> = part.iter().map(|listed| &listed.path).collect();
        for (listed, read) in part.iter().zip(memories.read_many(&paths).await) {
            steps.step();
            match read {
                Ok(read) => {
                    target.write(
                        &short_path(&listed.path),
                        read.text.as_bytes(),
                        read.modified_at,
                    )?;
                    let mut value = ls::memory_value(listed);
                    value["revision"] = read.revision.to_string().into();
                    exported.push(value);
                }
                // Deleted since it was listed.
                Err(error) if error.code() == MemoryErrorCode::NotFound => {}
                Err(error) => {
                    app.output.warning(&format!("left out: {error}"));
                    left_out += 1;
                }
            }
        }
    }
    Ok((exported, left_out))
}

/// Fails before the first file is written, if any of the files exists.
fn reject_existing(
    folder: &Path,
    listed: &[MemoryEntry],
    overwrite: Overwrite,
) -> Result<(), Failure> {
    if overwrite == Overwrite::Always {
        return Ok(());
    }
    let names = listed.iter().map(|listed| short_path(&listed.path));
    let existing: Vec<_> = names
        .chain([MANIFEST.to_owned()])
        .filter(|name| files::exists(&folder.join(name)))
        .collect();
    if existing.is_empty() {
        return Ok(());
    }
    let shown = existing.iter().take(EXISTING_NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = match existing.len().saturating_sub(EXISTING_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!("{} already has {shown}{more}", folder.display());
    Err(Failure::new(MemoryErrorCode::AlreadyExists, what)
        .help("nothing was written; `--force` overwrites"))
}

impl ExportTarget {
    fn write(&mut self, name: &str, bytes: &[u8], at: Timestamp) -> Result<(), Failure> {
        match self {
            Self::Tar(tar) => {
                let mut header = tar::Header::new_gnu();
                header.set_size(u64::try_from(bytes.len()).expect("a length fits 64 bits"));
                header.set_mode(0o644);
                header.set_mtime(u64::try_from(at.as_second()).unwrap_or(0));
                Ok(tar.append_data(&mut header, name, bytes)?)
            }
            Self::Folder { folder, overwrite } => {
                let path = folder.join(name);
                files::write_export(&path, bytes, *overwrite)
                    .map_err(|error| Failure::file("write", &path, &error))
            }
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Tar(tar) => Ok(tar.into_inner()?.flush()?),
            Self::Folder { .. } => Ok(()),
        }
    }
}

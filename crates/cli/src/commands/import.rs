//! `lukasa import`: memories of another product, as one change.

mod quipu;

use engine::import::{self, Format, ImportPlan, SkippedSource, SourceFile};
use engine::{ImportRejection, Memories, StoreError};
use memory::change::{Actor, ChangeId, ChangeKind, Provenance, Trust};
use memory::command::CommandError;
use memory::path::MemoryPath;
use serde_json::json;

use crate::app::{App, call, quipu_homes, with_allowed_rules};
use crate::args::{Import, ImportFormat};
use crate::commands::with_change;
use crate::exit::{Failure, Status};
use crate::files;
use crate::render::progress::StepProgress;
use crate::render::text::TextBuffer;
use crate::render::{FAINT, GOOD, OutputStyle, WARN, counted, sanitize, short_path};

/// A memory that an import makes.
struct ImportedEntry {
    path: MemoryPath,
    source: String,
    notes: Vec<String>,
}

/// Takes over memories.
pub(crate) async fn run(app: &App, args: &Import) -> Result<Status, Failure> {
    if let ImportFormat::Auto | ImportFormat::Quipu = args.format {
        match files::quipu::find(&args.source, &quipu_homes()) {
            Some(source) => return quipu::run(app, args, &source).await,
            None if args.format == ImportFormat::Quipu
                || files::quipu::belongs_to_quipu(&args.source) =>
            {
                return Err(no_quipu(args));
            }
            None => {}
        }
    }
    let target = target_of(app, args.to.as_deref().unwrap_or("global"))?;
    let source = files::read_source(&args.source)
        .map_err(|error| Failure::file("read", &args.source, &error))?;
    let format = format(args, &source.files);
    let ImportPlan { memories: planned, mut skipped } = import::plan(format, source.files);
    skipped.extend(unread_files(source.skipped));
    let origin = format!("import:{}", format_word(format));
    let provenance = Provenance::new(Actor::Person, Trust::Imported, &origin);
    let memories = with_allowed_rules(app.memories_of(provenance), &args.allow_rules)?;
    check_room(&memories, &target, planned.len())?;
    let mut draft = memories.draft(ChangeKind::Import, call());
    let mut made = Vec::new();
    let mut steps = StepProgress::new("importing", planned.len(), app.shows_progress());
    for one in planned {
        steps.step();
        let (source, notes) = (one.source.clone(), one.notes.clone());
        match engine::import_memory(&memories, &mut draft, &target, one).await {
            Ok(path) => made.push(ImportedEntry { path, source, notes }),
            Err(ImportRejection::Store(fault)) => return Err(fault.into()),
            Err(not) => {
                let is_loss = !matches!(not, ImportRejection::AlreadyExists(_));
                skipped.push(SkippedSource { source, reason: skip_reason(&not), is_loss });
            }
        }
    }
    drop(steps);
    let change =
        if args.dry_run { None } else { app.finish_write("writing", draft.commit()).await? };
    report(app, args, format, &ImportSummary { imported: made, skipped, change })
}

/// Returns the files of a source that were not read, each as a loss.
fn unread_files(skipped: Vec<(String, &'static str)>) -> impl Iterator<Item = SkippedSource> {
    skipped.into_iter().map(|(source, reason)| SkippedSource {
        source,
        reason: reason.to_owned(),
        is_loss: true,
    })
}

/// Checks that a scope can hold this number of memories at all, before any of them is written.
fn check_room(memories: &Memories, target: &MemoryPath, count: usize) -> Result<(), Failure> {
    let limit = memories.files_max();
    match target.mount() {
        Some(mount) if count > limit => {
            Err(StoreError::from(CommandError::ScopeFull { mount, limit }).into())
        }
        Some(_) | None => Ok(()),
    }
}

fn target_of(app: &App, to: &str) -> Result<MemoryPath, Failure> {
    let target = app.path(to)?;
    if target == MemoryPath::Top {
        return Err(Failure::usage("an import needs a scope to write to").help("try `--to global`"));
    }
    Ok(target)
}

fn no_quipu(args: &Import) -> Failure {
    let source = &args.source;
    if let Err(error) = files::real_path(source) {
        return Failure::file("read", source, &error);
    }
    let wrong = format!("`{}` is neither a known home nor a checkout of Quipu", source.display());
    Failure::usage(wrong)
        .help("name a home that QUIPU_HOME or the defaults of Quipu name, such as ~/.quipu, or the .quipu of a checkout")
        .more_help(
            "if it is a home of yours elsewhere, set QUIPU_HOME to it; if it is a plain folder, use `--format folder`",
        )
}

fn format(args: &Import, files: &[SourceFile]) -> Format {
    match args.format {
        // Where it really lies says more than how it was named.
        ImportFormat::Auto | ImportFormat::Quipu => Format::detect(
            &files::real_path(&args.source).unwrap_or_else(|_| args.source.clone()),
            files,
        ),
        ImportFormat::Folder => Format::Folder,
        ImportFormat::ClaudeCode => Format::ClaudeCode,
        ImportFormat::Qwen => Format::Qwen,
        ImportFormat::ServerMemory => Format::ServerMemory,
    }
}

/// Returns a format's word, as flags and history have it.
const fn format_word(format: Format) -> &'static str {
    match format {
        Format::Folder => "folder",
        Format::ClaudeCode => "claude-code",
        Format::Quipu => "quipu",
        Format::Qwen => "qwen",
        Format::ServerMemory => "server-memory",
    }
}

/// Says why a memory is not made, and what the person can do about it.
fn skip_reason(not: &ImportRejection) -> String {
    match not {
        ImportRejection::DifferentText(path) => {
            format!("{} is there with another text", short_path(path))
        }
        ImportRejection::Refused(CommandError::Screened { family, rule, line, .. }) => format!(
            "line {line} matches the {family} rule `{rule}`; `--allow {rule}` takes it all the same"
        ),
        other => other.to_string(),
    }
}

struct ImportSummary {
    imported: Vec<ImportedEntry>,
    skipped: Vec<SkippedSource>,
    change: Option<ChangeId>,
}

fn report(
    app: &App,
    args: &Import,
    format: Format,
    outcome: &ImportSummary,
) -> Result<Status, Failure> {
    let ImportSummary { imported: made, skipped, change } = outcome;
    let losses = skipped.iter().filter(|one| one.is_loss).count();
    let status = if losses == 0 { Status::Done } else { Status::Refused };
    if app.output.json {
        let made: Vec<_> = made
            .iter()
            .map(|one| json!({ "path": one.path.to_string(), "source": one.source, "notes": one.notes }))
            .collect();
        app.output.value(&json!({
            "format": format_word(format),
            "dry_run": args.dry_run,
            "memories": made,
            "skipped": skipped_values(skipped),
            "change": change.map(|id| id.0),
        }))?;
        return Ok(status);
    }
    let look = app.output.style;
    let mut text = TextBuffer::default();
    for one in made {
        write_entry(&mut text, look, one);
    }
    write_skipped(&mut text, look, skipped);
    app.output.text(&text.into_string())?;
    let verb = if args.dry_run { "would import" } else { "imported" };
    let count = counted(made.len(), "memory", "memories");
    let left =
        if skipped.is_empty() { String::new() } else { format!(", {} skipped", skipped.len()) };
    let done = format!("{verb} {count} ({} format){left}", format_word(format));
    app.output.note(&with_change(&done, *change));
    if losses > 0 {
        let pieces = counted(losses, "piece", "pieces");
        app.output.warning(&format!(
            "{pieces} of the source that may hold memories could not be taken over; see `skipped` above"
        ));
    }
    Ok(status)
}

/// Writes an imported memory with its source and notes.
fn write_entry(text: &mut TextBuffer, style: OutputStyle, entry: &ImportedEntry) {
    let from = style.paint(FAINT, &format!("from {}", sanitize::line(&entry.source)));
    text.line(format_args!("{} {}  {from}", style.paint(GOOD, "+"), short_path(&entry.path)));
    for note in &entry.notes {
        write_note(text, style, note);
    }
}

fn write_note(text: &mut TextBuffer, style: OutputStyle, note: &str) {
    text.line(format_args!("    {}", style.paint(FAINT, &sanitize::line(note))));
}

fn write_skipped(text: &mut TextBuffer, style: OutputStyle, skipped: &[SkippedSource]) {
    for one in skipped {
        let (source, why) = (sanitize::line(&one.source), sanitize::line(&one.reason));
        text.line(format_args!("{} {source}: {why}", style.paint(WARN, "skipped")));
    }
}

fn skipped_values(skipped: &[SkippedSource]) -> Vec<serde_json::Value> {
    let value = |one: &SkippedSource| json!({ "source": one.source, "why": one.reason, "is_loss": one.is_loss });
    skipped.iter().map(value).collect()
}

//! `lukasa import` of a Quipu home or checkout: its memories as one change, and their pins and usage beside it.
//!
//! The database of the home is read through a private copy. Pins and usage are no part of a change, here as in Quipu:
//! they are added after it, and go with the memories when the change is undone. Importing again adds nothing twice.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use engine::import::{self, Format, ImportPlan, PlannedMemory, SkippedSource};
use engine::quipu_state::{OldState, read_state};
use engine::{CallContext, DryRun, ImportRejection, Memories, StoreError, TextOrigin};
use memory::change::{Actor, ChangeId, ChangeKind, Provenance, Trust};
use memory::clock::Timestamp;
use memory::context_file::{HOST_NAMES, NAMES_DEFAULT};
use memory::error_code::MemoryErrorCode;
use memory::path::MemoryPath;
use serde_json::json;
use state::UsageRow;

use super::{
    ImportedEntry, check_room, skip_reason, skipped_values, target_of, unread_files, write_entry,
    write_note, write_skipped,
};
use crate::app::{App, settings_file, with_allowed_rules};
use crate::args::Import;
use crate::commands::with_change;
use crate::exit::{Failure, Status, chain};
use crate::files;
use crate::files::quipu::{
    QuipuHome, QuipuRoot, QuipuScope, QuipuSource, folder_in_checkout, trusted_folders,
};
use crate::render::progress::StepProgress;
use crate::render::text::TextBuffer;
use crate::render::{GOOD, WARN, counted, sanitize, short_path, time};

/// One folder of memories, planned.
struct PlannedRoot {
    root: QuipuRoot,
    target: MemoryPath,
    planned: Vec<PlannedMemory>,
    known: HashMap<String, FileRecord>,
}

/// The recorded facts of a file, beside its text.
struct FileRecord {
    origin: TextOrigin,
    mark: Option<UsageRow>,
}

/// A part of a home that is not imported.
struct NotImported {
    source: String,
    why: String,
}

/// The result of an import.
#[derive(Default)]
struct Outcome {
    created: Vec<(ImportedEntry, TextOrigin)>,
    skipped: Vec<SkippedSource>,
    not_imported: Vec<NotImported>,
    /// Marks of memories that are created or already exist.
    marks: Vec<(MemoryPath, UsageRow)>,
    change: Option<ChangeId>,
}

/// Imports the memories of a Quipu home or checkout.
pub(super) async fn run(app: &App, args: &Import, source: &QuipuSource) -> Result<Status, Failure> {
    let provenance = Provenance::new(Actor::Person, Trust::Imported, "import:quipu");
    let memories = with_allowed_rules(app.memories_of(provenance), &args.allow_rules)?;
    let mut outcome = Outcome::default();
    // The files are read before the database, which has a record of each text before its file is written. In the other
    // order, a text that an agent writes in between would have none, and its review would be lost.
    let read = source.roots.iter().map(read_root).collect::<Result<Vec<_>, _>>()?;
    let old = old_state(app, source, &memories, &mut outcome).await?;
    let roots = plan_roots(app, args, (source, read), (&memories, old.as_ref()), &mut outcome)?;
    if source.is_home {
        let no_records = OldState::default();
        let old = old.as_ref().unwrap_or(&no_records);
        add_marks_of_project(source, (&memories, old), &mut outcome).await?;
        if let Some(home) = &source.home {
            let checkout = app.binding.local_project().and_then(folder_in_checkout);
            let checkout = checkout.filter(|folder| *folder != home.data);
            outcome.not_imported.extend(checkout.as_deref().map(of_checkout));
            outcome.not_imported.extend(not_imported_from(home, old)?);
        }
    }
    let mut draft = memories.draft(ChangeKind::Import, CallContext::default());
    let total = roots.iter().map(|root| root.planned.len()).sum();
    let mut steps = StepProgress::new("importing", total, app.shows_progress());
    for root in roots {
        enter_root(&memories, &mut draft, root, &mut steps, &mut outcome).await?;
    }
    drop(steps);
    if args.dry_run {
        outcome.marks = memories.merge_marks(&outcome.marks, DryRun::Yes).await?;
    } else {
        outcome.change = app.finish_write("writing", draft.commit()).await?;
        let merged =
            app.finish_write("writing", memories.merge_marks(&outcome.marks, DryRun::No)).await;
        outcome.marks = merged.map_err(|error| unmarked(error, outcome.change))?;
    }
    tell(app, args, &outcome)
}

fn unmarked(error: StoreError, change: Option<ChangeId>) -> Failure {
    let failure = Failure::from(error);
    match change {
        Some(change) => failure.more_help(format!(
            "the memories are imported as change {change}; importing again adds their pins and usage"
        )),
        None => failure,
    }
}

/// Reads the records of the home. Without a database, no text counts as reviewed. One that exists and cannot be read
/// ends the import of a home: its texts would lose the reviews that they await.
async fn old_state(
    app: &App,
    source: &QuipuSource,
    memories: &Memories,
    outcome: &mut Outcome,
) -> Result<Option<OldState>, Failure> {
    let database =
        source.home.as_ref().map(QuipuHome::database).filter(|path| files::has_content(path));
    let Some(database) = database else {
        let why = "no database of Quipu was found, so pins and usage are not known, and all memories await your review; QUIPU_HOME names its home";
        outcome
            .not_imported
            .push(NotImported { source: "quipu.db".to_owned(), why: why.to_owned() });
        return Ok(None);
    };
    let of_roots = source.roots.iter().filter_map(|root| root.scope.identity());
    let of_mounts = memories.roots().into_iter().map(|key| key.identity);
    let identities: Vec<_> = of_roots.chain(of_mounts).collect();
    let read = async {
        let folder = files::private_temporary_folder("lukasa-import-");
        let folder = folder.map_err(|error| format!("no private folder for a copy: {error}"))?;
        let copy = folder.path().join("copy.db");
        let read = read_state(&database, &copy, &identities).await;
        read.map_err(|error| chain(&error))
    };
    let read = app.wait_with_progress("reading the state of Quipu", read).await;
    let error = match read {
        Ok(old) => return Ok(Some(old)),
        Err(error) => error,
    };
    let shown = database.display().to_string();
    let is_checkout = |root: &QuipuRoot| matches!(root.scope, QuipuScope::Checkout(_));
    if !source.roots.iter().all(is_checkout) {
        let failure = Failure::new(
            MemoryErrorCode::StorageFailed,
            format!("cannot read the database `{shown}` of Quipu: {error}"),
        );
        return Err(
            failure.help("nothing was imported, since it says which memories await a review")
        );
    }
    let why = format!(
        "pins, usage and reviews are not known, so all memories await your review: {error}"
    );
    outcome.skipped.push(SkippedSource { source: shown, reason: why, is_loss: true });
    Ok(None)
}

/// Plans each folder of memories that has a place here; the others are left where they are.
fn plan_roots(
    app: &App,
    args: &Import,
    (source, read): (&QuipuSource, Vec<files::ImportSource>),
    (memories, old): (&Memories, Option<&OldState>),
    outcome: &mut Outcome,
) -> Result<Vec<PlannedRoot>, Failure> {
    let mut roots = Vec::new();
    for (root, read) in source.roots.iter().zip(read) {
        let is_main = !source.is_home || root.scope == QuipuScope::Global;
        let target = match &args.to {
            Some(to) if is_main => Some(target_of(app, to)?),
            None if root.scope == QuipuScope::Global => Some(target_of(app, "global")?),
            None if is_main => Some(own_scope(memories, root)?),
            Some(_) | None => scope_here(memories, &root.scope),
        };
        let known = known_files(&read, &root.scope, old);
        let ImportPlan { memories: planned, skipped } = import::plan(Format::Quipu, read.files);
        let Some(target) = target else {
            outcome.not_imported.extend(elsewhere(root, planned.len()));
            continue;
        };
        let shown = |one: SkippedSource| SkippedSource {
            source: format!("{}/{}", root.shown, one.source),
            ..one
        };
        outcome.skipped.extend(skipped.into_iter().chain(unread_files(read.skipped)).map(shown));
        check_room(memories, &target, planned.len())?;
        roots.push(PlannedRoot { root: root.clone(), target, planned, known });
    }
    Ok(roots)
}

fn read_root(root: &QuipuRoot) -> Result<files::ImportSource, Failure> {
    files::read_source(&root.folder).map_err(|error| Failure::file("read", &root.folder, &error))
}

/// Returns the scope of the same project or workspace here. Memories of another one are imported only where the person
/// says.
fn own_scope(memories: &Memories, root: &QuipuRoot) -> Result<MemoryPath, Failure> {
    scope_here(memories, &root.scope).ok_or_else(|| {
        let folder = root.folder.display();
        Failure::usage(format!("`{folder}` has the memories of another project or workspace"))
            .help("run the import in its checkout, or name a scope or folder with `--to`")
    })
}

/// Returns the scope that is mounted here for the same project or workspace, if one is.
fn scope_here(memories: &Memories, scope: &QuipuScope) -> Option<MemoryPath> {
    let identity = scope.identity()?;
    let mounts = memories.mounts().into_iter();
    let mut same =
        mounts.filter(|mount| mount.key.as_ref().is_some_and(|key| key.identity == identity));
    same.next().map(|mount| MemoryPath::Root(mount.mount))
}

/// Returns what is known of each file of a folder, by its path there.
fn known_files(
    read: &files::ImportSource,
    scope: &QuipuScope,
    old: Option<&OldState>,
) -> HashMap<String, FileRecord> {
    // Without records, a text may have come from anywhere, as one of a repository may.
    let travels = matches!(scope, QuipuScope::Checkout(_)) || old.is_none();
    let identity = scope.identity();
    let records = old.zip(identity).map(|(old, identity)| old.scope(&identity)).unwrap_or_default();
    let marks: HashMap<_, _> =
        records.marks().iter().map(|mark| (mark.path.as_str(), mark)).collect();
    let known = |file: &import::SourceFile| {
        let (trust, needs_review) = records.trust(&file.bytes, travels);
        let modified_at = read.times.get(&file.path).and_then(|at| Timestamp::try_from(*at).ok());
        let origin = TextOrigin { trust, needs_review, modified_at };
        let mark = marks.get(&*file.path).map(|mark| (*mark).clone());
        (file.path.clone(), FileRecord { origin, mark })
    };
    read.files.iter().map(known).collect()
}

/// Says where the memories of another project or workspace can be taken over, if there are any.
fn elsewhere(root: &QuipuRoot, count: usize) -> Option<NotImported> {
    if count == 0 {
        return None;
    }
    let memories = counted(count, "memory", "memories");
    let here = root.folder.parent().unwrap_or(&root.folder).display();
    let by_hand = format!("`lukasa import {here} --to SCOPE/FOLDER` takes them over");
    let why = match &root.scope {
        QuipuScope::Workspace(_, Some(checkout)) if files::exists(checkout) => format!(
            "{memories} of the workspace of {checkout}; run the same import there",
            checkout = checkout.display()
        ),
        QuipuScope::Workspace(..) => {
            format!("{memories} of a workspace without a checkout; {by_hand}")
        }
        _ => format!(
            "{memories} of another project; run the same import in its folder, or {by_hand}"
        ),
    };
    Some(NotImported { source: root.shown.clone(), why })
}

fn of_checkout(folder: &Path) -> NotImported {
    let source = folder.display().to_string();
    let why = format!("memories of this checkout; `lukasa import {source}` takes them over");
    NotImported { source, why }
}

/// Adds the marks of the project of the current folder whose memories are there already: a person may have renamed the
/// folder in the checkout by hand.
async fn add_marks_of_project(
    source: &QuipuSource,
    (memories, old): (&Memories, &OldState),
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let own: HashSet<_> = source.roots.iter().filter_map(|root| root.scope.identity()).collect();
    for mount in memories.mounts() {
        let identity = mount.key.map(|key| key.identity).unwrap_or_default();
        if !identity.starts_with("project:") || own.contains(&identity) {
            continue;
        }
        for mark in old.scope(&identity).marks() {
            let Ok(path) = MemoryPath::inside(mount.mount, mark.path.clone()) else { continue };
            if memories.read(&path).await.is_ok() {
                outcome.marks.push((path, mark.clone()));
            }
        }
    }
    Ok(())
}

async fn enter_root(
    memories: &Memories,
    draft: &mut engine::Draft,
    root: PlannedRoot,
    steps: &mut StepProgress,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let PlannedRoot { root, target, planned, mut known } = root;
    for one in planned {
        steps.step();
        let source = format!("{}/{}", root.shown, one.source);
        let mut notes = one.notes.clone();
        let file = known.get_mut(&one.source);
        match engine::import_memory(memories, draft, &target, one).await {
            Ok(path) => {
                let Some(FileRecord { origin, mark }) = file else { continue };
                *origin = draft.set_origin(&path, *origin).await?;
                notes.extend(notes_of(*origin));
                // A text that is cut in parts has its mark once.
                outcome.marks.extend(mark.take().map(|mark| (path.clone(), mark)));
                outcome.created.push((ImportedEntry { path, source, notes }, *origin));
            }
            Err(ImportRejection::Store(fault)) => return Err(fault.into()),
            Err(not) => {
                let reason = skip_reason(&not);
                let is_loss = !matches!(not, ImportRejection::AlreadyExists(_));
                outcome.skipped.push(SkippedSource { source, reason, is_loss });
                if let ImportRejection::AlreadyExists(path) = not {
                    // A pin would show a text that awaits a review in Quipu.
                    let is_reviewed = |file: &&mut FileRecord| {
                        !file.origin.needs_review && file.origin.trust != Trust::Outside
                    };
                    let mark = file.filter(is_reviewed).and_then(|file| file.mark.take());
                    outcome.marks.extend(mark.map(|mark| (path, mark)));
                }
            }
        }
    }
    Ok(())
}

fn notes_of(origin: TextOrigin) -> Option<String> {
    let note = match (origin.needs_review, origin.trust) {
        (true, _) => "awaits your review; see `lukasa pending`",
        (false, Trust::Outside) => "no review of it is known; it may have come with the repository",
        (false, _) => return None,
    };
    Some(note.to_owned())
}

/// Lists what of a home is not memories and stays where it is, with what to do about it.
fn not_imported_from(home: &QuipuHome, old: &OldState) -> Result<Vec<NotImported>, Failure> {
    let settings = settings_file()?;
    let folder = settings.parent().unwrap_or(Path::new("")).to_owned();
    let mut names = vec!["config.toml"];
    for name in NAMES_DEFAULT.into_iter().chain(HOST_NAMES) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut not_imported = Vec::new();
    for name in names {
        let (from, to) = (home.config.join(name), folder.join(name));
        if !files::is_file(&from) {
            continue;
        }
        let (from, to_shown) = (from.display(), to.display());
        let why = if files::exists(&to) {
            format!("{to_shown} is there already; compare it with {from}")
        } else {
            format!("copy {from} to {to_shown} to keep it")
        };
        not_imported.push(NotImported { source: name.to_owned(), why });
    }
    let trusted = trusted_folders(home);
    not_imported.extend(trusted.into_iter().map(|folder| NotImported {
        why: format!("was trusted in Quipu; `lukasa trust {folder}` trusts it here"),
        source: folder,
    }));
    if old.unfinished_tasks > 0 {
        let tasks =
            counted(usize::try_from(old.unfinished_tasks).unwrap_or(usize::MAX), "task", "tasks");
        let why = format!("{tasks} not finished; `quipu serve` finishes them, then import again");
        not_imported.push(NotImported { source: "tasks".to_owned(), why });
    }
    Ok(not_imported)
}

fn tell(app: &App, args: &Import, outcome: &Outcome) -> Result<Status, Failure> {
    let losses = outcome.skipped.iter().filter(|one| one.is_loss).count();
    let status = if losses == 0 { Status::Done } else { Status::Refused };
    if app.output.json {
        app.output.value(&value_of(args, outcome))?;
        return Ok(status);
    }
    app.output.text(&text_of(app, outcome))?;
    app.output.note(&with_change(&summary(args, outcome), outcome.change));
    if losses > 0 {
        let pieces = counted(losses, "piece", "pieces");
        app.output.warning(&format!(
            "{pieces} of the source could not be taken over; see `skipped` above"
        ));
    }
    Ok(status)
}

fn value_of(args: &Import, outcome: &Outcome) -> serde_json::Value {
    let memories = outcome.created.iter().map(|(one, origin)| {
        json!({
            "path": one.path.to_string(),
            "source": one.source,
            "notes": one.notes,
            "trust": origin.trust.as_ref(),
            "modified_at": origin.modified_at.map(time::exact),
        })
    });
    let left =
        outcome.not_imported.iter().map(|one| json!({ "source": one.source, "why": one.why }));
    let marks = outcome.marks.iter().map(|(path, mark)| {
        json!({
            "path": path.to_string(),
            "pinned": mark.pinned,
            "uses": mark.usage.uses,
            "last_used_at": mark.usage.last_used_at.map(time::exact),
        })
    });
    json!({
        "format": "quipu",
        "dry_run": args.dry_run,
        "memories": memories.collect::<Vec<_>>(),
        "marks": marks.collect::<Vec<_>>(),
        "skipped": skipped_values(&outcome.skipped),
        "left": left.collect::<Vec<_>>(),
        "change": outcome.change.map(|id| id.0),
    })
}

fn text_of(app: &App, outcome: &Outcome) -> String {
    let look = app.output.style;
    let marks: HashMap<_, _> = outcome.marks.iter().map(|(path, mark)| (path, mark)).collect();
    let made: HashSet<_> = outcome.created.iter().map(|(one, _)| &one.path).collect();
    let mut text = TextBuffer::default();
    for (one, _) in &outcome.created {
        write_entry(&mut text, look, one);
        if let Some(mark) = marks.get(&one.path) {
            write_note(&mut text, look, &mark_words(mark));
        }
    }
    for (path, mark) in outcome.marks.iter().filter(|(path, _)| !made.contains(path)) {
        text.line(format_args!(
            "{} {}: {}",
            look.paint(GOOD, "marked"),
            short_path(path),
            mark_words(mark)
        ));
    }
    write_skipped(&mut text, look, &outcome.skipped);
    for one in &outcome.not_imported {
        let (source, why) = (sanitize::line(&one.source), sanitize::line(&one.why));
        text.line(format_args!("{} {source}: {why}", look.paint(WARN, "left")));
    }
    text.into_string()
}

fn mark_words(mark: &UsageRow) -> String {
    let used = match mark.usage.uses {
        1 => "used once".to_owned(),
        uses => format!("used {uses} times"),
    };
    match (mark.pinned, mark.usage.uses) {
        (true, 0) => "pinned".to_owned(),
        (true, _) => format!("pinned, {used}"),
        (false, _) => used,
    }
}

fn summary(args: &Import, outcome: &Outcome) -> String {
    let verb = if args.dry_run { "would import" } else { "imported" };
    let count = counted(outcome.created.len(), "memory", "memories");
    let mut by_scope: BTreeMap<String, usize> = BTreeMap::new();
    for (one, _) in &outcome.created {
        let scope = short_path(&one.path).split('/').next().unwrap_or_default().to_owned();
        *by_scope.entry(scope).or_default() += 1;
    }
    let scopes: Vec<_> =
        by_scope.iter().map(|(scope, count)| format!("{count} to {scope}")).collect();
    let mut text = format!("{verb} {count} (quipu format)");
    if !scopes.is_empty() {
        text = format!("{text}: {}", scopes.join(", "));
    }
    let pins = outcome.marks.iter().filter(|(_, mark)| mark.pinned).count();
    let used = outcome.marks.iter().filter(|(_, mark)| mark.usage.uses > 0).count();
    let marks = [(pins, counted(pins, "pin", "pins")), (used, format!("usage of {used}"))];
    let marks: Vec<_> =
        marks.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect();
    if !marks.is_empty() {
        text = format!("{text}; {}", marks.join(", "));
    }
    match outcome.skipped.len() {
        0 => text,
        skipped => format!("{text}; {skipped} skipped"),
    }
}

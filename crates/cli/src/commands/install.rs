//! `lukasa install` and `lukasa uninstall`: reading, asking about, and writing the settings of agents.
//!
//! All files are read and edited in memory first; nothing is written if one of them cannot be parsed. The edits are in
//! [`install`](crate::install).

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use memory::change::unified_diff;
use memory::error_code::MemoryErrorCode;
use serde_json::json;
use state::private_files::create_private_folder;

use crate::app::{self, App};
use crate::args::{Globals, Install, InstallTarget, Installation, Uninstall};
use crate::commands::ask;
use crate::exit::{Failure, Status};
use crate::files::{self, Overwrite, ReadAccess, ReplaceError};
use crate::install::agents::{
    self, AgentDirs, AgentName, ConfigTarget, Consent, InstallScope, InstallSpec,
};
use crate::install::record::{FileRecord, InstallRecord, PriorText, digest};
use crate::install::{self, ConfigError, Counts, EditedText};
use crate::render::diff;

mod git;

/// The file of the state folder that holds the record of installations.
const RECORD: &str = "installed.json";

/// The note about the download that a plugin causes.
const PLUGIN_NOTE: &str = "for its plugin opencode downloads `@opencode-ai/plugin` once; without a network each start \
                           waits about a minute for that (`--no-plugin` writes no plugin)";

/// A file with its current and its new text.
struct ConfigChange {
    path: PathBuf,
    before: Option<String>,
    edited: EditedText,
    diff: String,
}

/// The direction of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InstallAction {
    Install,
    Uninstall,
}

/// The changes to the files of an agent or of git, and the changes that the user declined.
struct InstallPlan {
    /// The name of the product.
    title: &'static str,
    /// Its name on the command line.
    word: String,
    /// The next step for the user.
    next: Option<&'static str>,
    action: InstallAction,
    changes: Vec<ConfigChange>,
    declined: Vec<String>,
    /// The readers of new files.
    readers: ReadAccess,
    /// Whether the files name the program by its path.
    names_program: bool,
}

impl InstallPlan {
    fn of_agent(
        spec: &InstallSpec,
        action: InstallAction,
        changes: Vec<ConfigChange>,
        declined: Vec<String>,
    ) -> Self {
        let agent = spec.agent.agent();
        let readers = match spec.project {
            // Settings of agents may hold keys.
            None => ReadAccess::Owner,
            Some(_) => ReadAccess::Default,
        };
        let (title, next, word) = (agent.title, Some(agent.next), spec.agent.word());
        let names_program = spec.project.is_none();
        Self { title, word, next, action, changes, declined, readers, names_program }
    }
}

/// Sets up an agent, or lists the agents on this machine and offers to set them up.
pub(crate) async fn install(app: &App, args: &Install) -> Result<Status, Failure> {
    if args.print {
        let value = agents::generic_configuration(&program_of(app)?);
        app.output.text(&format!("{value:#}\n"))?;
        return Ok(Status::Done);
    }
    match args.agent {
        Some(InstallTarget::Git) => git::run(app, &args.installation, InstallAction::Install).await,
        Some(InstallTarget::Agent(agent)) => install_one(app, agent, args).await,
        None => list_agents(app, args).await,
    }
}

/// Removes Lukasa from the settings of an agent.
pub(crate) async fn uninstall(app: &App, args: &Uninstall) -> Result<Status, Failure> {
    let action = InstallAction::Uninstall;
    let agent = match args.agent {
        InstallTarget::Git => return git::run(app, &args.installation, action).await,
        InstallTarget::Agent(agent) => agent,
    };
    let wanted = install_spec(app, agent, args.installation.scope)?;
    let wanted = InstallSpec { consent: Consent::ALL, ..wanted };
    let changes = changes(&wanted, action)?;
    let plan = InstallPlan::of_agent(&wanted, action, changes, Vec::new());
    execute(app, &plan, &args.installation).await
}

/// Lists the agents on this machine, and sets up those that the user confirms.
async fn list_agents(app: &App, args: &Install) -> Result<Status, Failure> {
    let homes = app::agent_homes()?;
    let all = AgentName::value_variants().iter().copied();
    let (found, missing): (Vec<_>, Vec<_>) = all.partition(|agent| agent.is_installed(&homes));
    if app.output.json {
        let names = |agents: &[AgentName]| agents.iter().map(|one| one.word()).collect::<Vec<_>>();
        app.output.value(&json!({ "found": names(&found), "not_found": names(&missing) }))?;
        return Ok(Status::Done);
    }
    for agent in &found {
        app.output.text(&format!("{:<16}{}\n", agent.word(), agent.agent().title))?;
    }
    let titles: Vec<_> = missing.iter().map(|agent| agent.agent().title).collect();
    app.output.note(&format!("not found on this machine: {}", titles.join(", ")));
    let all = args.installation.yes || args.installation.dry_run;
    if !all && !ask::can_ask(app) {
        app.output.note("nothing was written: name an agent, or use `--yes` for all agents found");
        return Ok(Status::Refused);
    }
    for agent in found {
        let question = format!("Set up {} to use Lukasa?", agent.agent().title);
        if all || ask::confirm(app, &question).await? {
            install_one(app, agent, args).await?;
        }
    }
    Ok(Status::Done)
}

async fn install_one(app: &App, agent: AgentName, args: &Install) -> Result<Status, Failure> {
    let mut wanted = InstallSpec {
        plugin: !args.exclusions.no_plugin,
        ..install_spec(app, agent, args.installation.scope)?
    };
    if !agent.is_installed(&app::agent_homes()?) {
        let title = agent.agent().title;
        app.output.warning(&format!(
            "{title} was not found on this machine; its settings are written anyway"
        ));
    }
    let left_out = ask_consent(app, &mut wanted, args).await?;
    let changes = changes(&wanted, InstallAction::Install)?;
    let plan = InstallPlan::of_agent(&wanted, InstallAction::Install, changes, left_out);
    execute(app, &plan, &args.installation).await
}

/// Asks for consent to each change that needs it, and returns the declined changes. Nothing is asked for a project,
/// since its settings must not decide that for other people.
async fn ask_consent(
    app: &App,
    wanted: &mut InstallSpec,
    args: &Install,
) -> Result<Vec<String>, Failure> {
    let mut left_out = Vec::new();
    if wanted.project.is_some() {
        return Ok(left_out);
    }
    let agent = wanted.agent.agent();
    let title = agent.title;
    let permission = agent.permission.filter(|_| !args.exclusions.no_permissions).map(|how| {
        (
            Consent { permissions: true, ..wanted.consent },
            format!("let {title} run Lukasa's tools without asking ({how})"),
        )
    });
    let memory = agent.own_memory.filter(|_| !args.exclusions.no_replace_memory).map(|how| {
        (
            Consent { replace_memory: true, ..wanted.consent },
            format!("switch off {title}'s own memory ({how})"),
        )
    });
    for (wider, what) in permission.into_iter().chain(memory) {
        let with = InstallSpec { consent: wider, ..wanted.clone() };
        if texts(&changes(&with, InstallAction::Install)?)
            == texts(&changes(
                &InstallSpec { consent: Consent::default(), ..wanted.clone() },
                InstallAction::Install,
            )?)
        {
            continue;
        }
        let question = format!("Allow it to {what}?");
        let asks = ask::can_ask(app) && !args.installation.dry_run;
        if args.installation.yes || asks && ask::confirm(app, &question).await? {
            wanted.consent.permissions |= wider.permissions;
            wanted.consent.replace_memory |= wider.replace_memory;
        } else {
            left_out.push(what);
        }
    }
    Ok(left_out)
}

/// Returns the texts that would be written.
fn texts(changes: &[ConfigChange]) -> Vec<(&Path, &str)> {
    let written = changes.iter().filter(|change| !change.diff.is_empty());
    written
        .map(|change| (change.path.as_path(), change.edited.text.as_deref().unwrap_or_default()))
        .collect()
}

async fn execute(app: &App, plan: &InstallPlan, args: &Installation) -> Result<Status, Failure> {
    let changed: Vec<_> = plan.changes.iter().filter(|change| !change.diff.is_empty()).collect();
    if !app.output.json {
        if args.dry_run || args.diff {
            show_difference(app, &plan.changes)?;
        }
        for note in plan.changes.iter().flat_map(|change| &change.edited.notes) {
            app.output.warning(note);
        }
    }
    let title = plan.title;
    let summary = summary(&changed);
    if changed.is_empty() {
        app.output.note(&match plan.action {
            InstallAction::Install => format!("{title} is set up already; nothing to write"),
            InstallAction::Uninstall => {
                format!("{title} has no settings of Lukasa; nothing to write")
            }
        });
    } else if args.dry_run {
        app.output.note(&format!("{title}: would change {summary}"));
    } else {
        let question = format!("{title}: change {summary}?");
        if !args.yes && ask::can_ask(app) && !ask::confirm(app, &question).await? {
            app.output.note("nothing was written");
            return Ok(Status::Refused);
        }
        if plan.action == InstallAction::Install && plan.names_program {
            note_copy(app)?;
        }
        write_all(plan)?;
        app.output.note(&format!("{title}: changed {summary}"));
    }
    report(app, plan, args)
}

/// Returns the numbers of changed files and entries, and the paths of the files.
fn summary(changed: &[&ConfigChange]) -> String {
    let mut counts = Counts::default();
    for ConfigChange { edited: EditedText { counts: file, .. }, .. } in changed {
        counts.hooks += file.hooks;
        counts.plugins += file.plugins;
        counts.servers += file.servers;
        counts.settings += file.settings;
    }
    let numbered = [
        (changed.len(), "file"),
        (counts.hooks, "hook"),
        (counts.plugins, "plugin"),
        (counts.servers, "server"),
        (counts.settings, "setting"),
    ];
    let numbered = numbered.iter().filter(|(count, _)| *count > 0);
    let words = numbered
        .map(|(count, noun)| format!("{count} {noun}{}", if *count == 1 { "" } else { "s" }));
    let paths: Vec<_> = changed.iter().map(|change| change.path.display().to_string()).collect();
    format!("{} ({})", words.collect::<Vec<_>>().join(", "), paths.join(", "))
}

fn install_spec(app: &App, agent: AgentName, scope: InstallScope) -> Result<InstallSpec, Failure> {
    let Globals { project, project_root, workspace_id, flat, .. } = &app.globals;
    if project_root.is_some() || workspace_id.is_some() || flat.is_some() {
        return Err(Failure::usage("`install` does not take flags that select memories")
            .help("add such flags to `args` of the server in the agent's settings"));
    }
    let project = match scope {
        InstallScope::User if project.is_some() => {
            return Err(Failure::usage("`--project` needs `--scope project`"));
        }
        InstallScope::User => None,
        InstallScope::Project => Some(project_folder(app)?),
    };
    let program = match &project {
        // The settings of a project are shared, and the path of the program differs between machines.
        Some(_) => "lukasa".to_owned(),
        None => program_of(app)?,
    };
    let variables = match (agent, &project) {
        (AgentName::Codex, None) => {
            app::folder_variables().into_iter().map(|(name, _)| name).collect()
        }
        _ => Vec::new(),
    };
    Ok(InstallSpec {
        agent,
        project,
        program,
        variables,
        consent: Consent::default(),
        plugin: true,
    })
}

fn program_of(app: &App) -> Result<String, Failure> {
    let program = app::lasting_program(&app.folders)?;
    program.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!("the path of the program is not UTF-8: `{}`", program.display()))
            .help("install the program at a path of plain text")
    })
}

/// Returns the top folder of the checkout, else the folder itself.
fn project_folder(app: &App) -> Result<PathBuf, Failure> {
    let folder = app.binding.local_project().map(Path::to_owned);
    let folder = folder.ok_or_else(|| Failure::usage("there is no current folder"))?;
    let top = folder.ancestors().find(|above| files::exists(&above.join(".git")));
    Ok(top.unwrap_or(&folder).to_owned())
}

fn changes(wanted: &InstallSpec, doing: InstallAction) -> Result<Vec<ConfigChange>, Failure> {
    let homes: AgentDirs = app::agent_homes()?;
    let targets = wanted.targets(&homes);
    if targets.is_empty() {
        let title = wanted.agent.agent().title;
        return Err(Failure::usage(format!("{title} has no project settings"))
            .help("without `--scope project` your own settings are written"));
    }
    let record = read_record()?;
    let project = wanted.project.as_deref();
    targets.into_iter().map(|target| change(target, doing, &record, project)).collect()
}

fn change(
    target: ConfigTarget,
    doing: InstallAction,
    record: &InstallRecord,
    project: Option<&Path>,
) -> Result<ConfigChange, Failure> {
    let ConfigTarget { path, parts } = target;
    // A link in a checkout must not redirect the write to another folder.
    if let Some(link) = project.and_then(|project| files::link_below(project, &path)) {
        return Err(replace_failure(&link, &files::link(&link)));
    }
    let before = files::read_optional(&path).map_err(|error| unreadable(&path, &error))?;
    let edited = match (doing, &before) {
        (InstallAction::Install, before) => install::install(before.as_deref(), &parts),
        (InstallAction::Uninstall, Some(before)) => {
            uninstall_parts(before, &parts, record.file_record(&path))
        }
        (InstallAction::Uninstall, None) => Ok(EditedText::default()),
    };
    let edited = edited.map_err(|misread| unchanged_failure(&path, &misread))?;
    let shown = path.display().to_string();
    let old = before.as_deref().unwrap_or_default();
    let new = edited.text.as_deref().unwrap_or_default();
    let mut diff = unified_diff((&shown, old), (&shown, new));
    if diff.is_empty() && before != edited.text {
        diff = format!("--- {shown}\n+++ {shown}\n");
    }
    if !diff.is_empty() {
        files::check_replaceable(&path).map_err(|why| replace_failure(&path, &why))?;
    }
    Ok(ConfigChange { path, before, edited, diff })
}

/// Returns a file without our entries: the bytes before `install` if it was not edited since, else the edited text.
fn uninstall_parts(
    text: &str,
    parts: &[install::ConfigPart],
    record: Option<&FileRecord>,
) -> Result<EditedText, ConfigError> {
    let priors = record.map(|record| record.settings.as_slice()).unwrap_or_default();
    let mut edited = install::uninstall(text, parts, priors)?;
    match record.map_or(PriorText::Unknown, |record| record.before(text)) {
        PriorText::Absent => edited.text = None,
        // An older installation may have added entries without a record.
        PriorText::Text(before) => {
            let without = install::uninstall(&before, parts, &[])?;
            let is_clean = without.counts == Counts::default();
            edited.text = if is_clean { Some(before) } else { without.text };
        }
        PriorText::Unknown if edited.text.is_none() && record.is_some_and(|one| !one.made) => {
            edited.text = install::emptied_text(parts);
        }
        PriorText::Unknown => {}
    }
    Ok(edited)
}

fn record_file() -> Result<PathBuf, Failure> {
    Ok(app::state_folder()?.join(RECORD))
}

/// Returns the record of installations. A damaged record is an error: the next write would replace it, and `uninstall`
/// could not restore the exact bytes of files any more.
fn read_record() -> Result<InstallRecord, Failure> {
    let file = record_file()?;
    let text = files::read_optional(&file).map_err(|error| Failure::file("read", &file, &error))?;
    let Some(text) = text else { return Ok(InstallRecord::default()) };
    serde_json::from_str(&text).map_err(|error| {
        let what = format!("the record of installations `{}` is damaged: {error}", file.display());
        Failure::new(MemoryErrorCode::StorageFailed, what)
            .help("move it away: `uninstall` then removes our entries, but does not restore the exact bytes")
    })
}

fn write_record(record: &InstallRecord) -> Result<(), Failure> {
    let file = record_file()?;
    let written = if record.is_empty() {
        files::remove(&file)
    } else {
        let folder = file.parent().unwrap_or(Path::new("."));
        let text = json!(record).to_string();
        let created = create_private_folder(folder);
        created.and_then(|()| files::write_export(&file, text.as_bytes(), Overwrite::Always))
    };
    written.map_err(|error| Failure::file("write", &file, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::InvalidData {
        let what = format!("`{}` is not UTF-8 text; nothing was written", path.display());
        return Failure::new(MemoryErrorCode::NotText, what);
    }
    Failure::file("read", path, error)
}

fn unchanged_failure(path: &Path, misread: &ConfigError) -> Failure {
    let what = format!("`{}`: {}; nothing was written", path.display(), misread.reason());
    Failure::usage(what).help(match misread {
        ConfigError::Syntax { .. } => "correct the file; the agent cannot read it either",
        ConfigError::Shape(_) | ConfigError::Form(_) => {
            "edit it by hand: the README shows the entries"
        }
    })
}

fn replace_failure(path: &Path, why: &ReplaceError) -> Failure {
    let shown = path.display();
    match why {
        ReplaceError::Link(target) => {
            let what = format!("`{shown}` is a link to `{}`", target.display());
            Failure::new(MemoryErrorCode::ReadOnly, what)
                .help("links are not followed: edit that file, or replace the link by a file")
        }
        ReplaceError::ReadOnly => {
            Failure::new(MemoryErrorCode::ReadOnly, format!("`{shown}` is read-only"))
                .help("make it writable with `chmod u+w`")
        }
        ReplaceError::Changed => {
            let what = format!("`{shown}` was changed by another program in the meantime");
            Failure::new(MemoryErrorCode::Conflict, what).help("run the same command again")
        }
        ReplaceError::System(error) => Failure::file("write", path, error),
    }
}

/// Copies this program if it is in a cache, and says so.
fn note_copy(app: &App) -> Result<(), Failure> {
    if let Some(kept) = app::keep_program(&app.folders)? {
        let kept = kept.display();
        app.output
            .note(&format!("agents start the copy {kept}, because this program is in a cache"));
    }
    Ok(())
}

/// Writes the files. The record is written first, so that no file is changed without one.
fn write_all(plan: &InstallPlan) -> Result<(), Failure> {
    let mut record = read_record()?;
    for change in plan.changes.iter().filter(|change| !change.diff.is_empty()) {
        if plan.action == InstallAction::Install {
            record.insert(file_record(change), change.before.as_deref());
            write_record(&record)?;
        }
        write(change, plan.readers)?;
    }
    if plan.action == InstallAction::Uninstall {
        let records = plan.changes.iter().filter_map(|change| record.file_record(&change.path));
        let mut folders: Vec<_> = records.flat_map(|record| record.folders.clone()).collect();
        // Inner folders are removed first.
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for folder in folders {
            files::remove_empty_folder(&folder)
                .map_err(|error| Failure::file("remove", &folder, &error))?;
        }
        for change in &plan.changes {
            record.remove(&change.path);
        }
        write_record(&record)?;
    }
    Ok(())
}

fn file_record(change: &ConfigChange) -> FileRecord {
    let ConfigChange { path, before, edited, .. } = change;
    FileRecord {
        file: path.clone(),
        made: before.is_none(),
        folders: files::missing_folders(path),
        revision: digest(edited.text.as_deref().unwrap_or_default()),
        replaced: Some(edited.replaced.clone()),
        settings: edited.settings.clone(),
    }
}

fn write(change: &ConfigChange, readers: ReadAccess) -> Result<(), Failure> {
    let (before, after) = (change.before.as_deref(), change.edited.text.as_deref());
    files::replace(&change.path, before, after, readers)
        .map_err(|why| replace_failure(&change.path, &why))
}

fn show_difference(app: &App, changes: &[ConfigChange]) -> Result<(), Failure> {
    let shown = changes.iter().map(|change| diff::colored(&change.diff, app.output.style));
    app.output.text(&shown.collect::<String>())
}

fn report(app: &App, plan: &InstallPlan, args: &Installation) -> Result<Status, Failure> {
    let anything = plan.changes.iter().any(|change| !change.diff.is_empty());
    let next = plan.next.filter(|_| plan.action == InstallAction::Install && anything);
    if app.output.json {
        let files = plan.changes.iter().map(|change| {
            let does = match &change.edited.text {
                _ if change.diff.is_empty() => "leave",
                Some(_) => "write",
                None => "remove",
            };
            json!({
                "file": change.path, "does": does, "diff": change.diff,
                "notes": change.edited.notes,
            })
        });
        app.output.value(&json!({
            "files": files.collect::<Vec<_>>(),
            "dry_run": args.dry_run,
            "left_out": plan.declined,
            "next": next,
        }))?;
        return Ok(Status::Done);
    }
    for what in &plan.declined {
        app.output.note(&format!("left out: {what}"));
    }
    if !plan.declined.is_empty() {
        app.output.note(&format!("`lukasa install {} --yes` includes it", plan.word));
    }
    if let Some(next) = next.filter(|_| !args.dry_run) {
        app.output.note(next);
        if plan.changes.iter().any(|change| change.edited.counts.plugins > 0) {
            app.output.note(PLUGIN_NOTE);
        }
    }
    Ok(Status::Done)
}

//! Shell completion of commands, flags, memories, changes, tasks and proposals.
//!
//! A shell runs the program with `COMPLETE` set and the words typed so far, and offers the printed
//! candidates. Memories, folders and changes are read through [`ReadOnlyApp`]: nothing is written.
//! A lookup that fails offers no candidates and prints no error, since the user has not run a command.

use std::ffi::OsStr;
use std::future::Future;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory, FromArgMatches};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use engine::{ChangesQuery, CompletionEntry, TaskFilter};
use memory::change::MemoryChange;
use memory::limits::PROPOSALS_LISTED_MAX;
use memory::path::MemoryPath;

use crate::app::{self, ReadOnlyApp};
use crate::args::{Cli, Globals};
use crate::commands::pending;
use crate::exit::Status;
use crate::render::{change, short_path};
use crate::task_client::TaskClient;

/// The environment variable that a shell sets to ask for completion.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// The maximum number of names offered of one folder.
const NAMES_MAX: usize = 1_000;

/// The maximum number of changes offered; the newest.
const CHANGES_MAX: usize = 50;

/// The maximum number of tasks offered; the newest.
const TASKS_MAX: usize = 20;

/// The maximum time of a lookup; after it the user has continued to type.
const COMPLETE_WAIT: Duration = Duration::from_secs(2);

/// A function that returns the candidates for a partial word.
type Lookup = fn(&OsStr) -> Vec<CompletionCandidate>;

/// Answers a completion request of a shell; `None` if there is none. Must run before any thread and any output.
pub(crate) fn answer() -> Option<Status> {
    let (words, folder) = (app::raw_args(), app::current_folder());
    let completer = CompleteEnv::with_factory(|| with_lookups(Cli::command())).var(VARIABLE);
    match completer.try_complete(words, folder.as_deref()) {
        Ok(is_answered) => is_answered.then_some(Status::Done),
        // The shell in the variable is unknown; the user who set it needs the error.
        Err(error) => error.print().map_or(Some(Status::Fault), |()| Some(Status::Usage)),
    }
}

/// Adds the lookups to the arguments of a command and its subcommands.
fn with_lookups(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let with_lookup = |argument: Arg| match lookup(&name, argument.get_id().as_str()) {
        Some(lookup) => argument.add(ArgValueCompleter::new(lookup)),
        None => argument,
    };
    command.mut_args(with_lookup).mut_subcommands(with_lookups)
}

/// Returns the lookup for an argument of a command, by the name of its field.
fn lookup(command: &str, argument: &str) -> Option<Lookup> {
    Some(match (command, argument) {
        ("create", "path") | ("mv" | "import", "to") => folders,
        ("ls" | "view" | "replace" | "insert" | "edit" | "grep" | "log" | "export", "path")
        | ("rm" | "pin" | "unpin" | "accept", "paths")
        | ("mv", "from")
        | ("forget", "file") => memories,
        ("show" | "undo", "change") | ("diff", "revision") => changes,
        ("diff", "subject") => changes_and_memories,
        ("log" | "undo", "task") | ("tasks", "cancel") => tasks,
        // The subcommands of `lukasa pending`.
        ("show", "id") | ("accept" | "reject", "ids") => proposals,
        (_, "rules") => rules,
        _ => return None,
    })
}

/// Offers memories, and the folders on the way to them.
fn memories(typed: &OsStr) -> Vec<CompletionCandidate> {
    paths(typed, true)
}

/// Offers folders and scopes.
fn folders(typed: &OsStr) -> Vec<CompletionCandidate> {
    paths(typed, false)
}

/// Offers the newest changes.
fn changes(typed: &OsStr) -> Vec<CompletionCandidate> {
    let query = ChangesQuery { max: CHANGES_MAX, ..ChangesQuery::default() };
    ids(typed, async |app: &ReadOnlyApp| {
        let recorded = app.memories.recorded_changes(&query).await.unwrap_or_default();
        let candidate = |change: &MemoryChange| {
            (change.id.0.to_string(), change::summary(&app.memories, change))
        };
        recorded.iter().map(candidate).collect()
    })
}

/// Offers the newest tasks; none if they cannot be read.
fn tasks(typed: &OsStr) -> Vec<CompletionCandidate> {
    ids(typed, async |app: &ReadOnlyApp| {
        let lane = TaskClient::new(&app.engine, app.workspace());
        let filter = TaskFilter { max: Some(TASKS_MAX), ..TaskFilter::default() };
        let listed = lane.list(filter).await.unwrap_or_default();
        listed.iter().map(|task| (task.id.to_string(), task.status().as_str().to_owned())).collect()
    })
}

/// Offers the waiting proposals.
fn proposals(typed: &OsStr) -> Vec<CompletionCandidate> {
    ids(typed, async |app: &ReadOnlyApp| {
        let pending = app.engine.proposal_queue();
        let page = pending.list(&app.memories, None, PROPOSALS_LISTED_MAX).await;
        page.unwrap_or_default().proposals.iter().map(pending::number_and_title).collect()
    })
}

/// Offers the ids that start with the typed text, each with a summary, in the order of `find`.
fn ids(
    typed: &OsStr,
    find: impl AsyncFnOnce(&ReadOnlyApp) -> Vec<(String, String)>,
) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let found = with_read_only_app(find).unwrap_or_default().into_iter().enumerate();
    found
        .filter(|(_, (id, _))| id.starts_with(typed))
        .map(|(order, (id, about))| {
            CompletionCandidate::new(id).help(Some(about.into())).display_order(Some(order))
        })
        .collect()
}

/// Offers the newest changes, and memories.
fn changes_and_memories(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut offered = changes(typed);
    offered.extend(memories(typed));
    offered
}

/// Offers the screening rules and their families.
fn rules(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_str().unwrap_or_default();
    memory::screen::rules()
        .iter()
        .filter(|rule| rule.id.starts_with(typed))
        .map(|rule| CompletionCandidate::new(rule.id).help(Some(rule.about.into())))
        .collect()
}

fn paths(typed: &OsStr, with_memories: bool) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let (folder, prefix) = match typed.rsplit_once('/') {
        Some((folder, prefix)) => (folder, prefix),
        None => ("", typed),
    };
    if folder.is_empty() && typed.starts_with('/') {
        let whole = "/memories/";
        let offered = whole.starts_with(typed).then(|| CompletionCandidate::new(whole));
        return offered.into_iter().collect();
    }
    let entries = with_read_only_app(async |app: &ReadOnlyApp| {
        let folder = app.path(folder).ok()?;
        Some(app.memories.list_names(&folder, NAMES_MAX).await)
    });
    let before = typed.strip_suffix(prefix).unwrap_or_default();
    let entries = entries.flatten().unwrap_or_default().into_iter();
    entries
        .filter(|entry| with_memories || !entry.is_memory)
        .filter_map(|CompletionEntry { path, is_memory }| {
            let name = last_name(&path);
            let slash = if is_memory { "" } else { "/" };
            let fits = name.starts_with(prefix) && is_plain(&name);
            fits.then(|| CompletionCandidate::new(format!("{before}{name}{slash}")))
        })
        .collect()
}

fn last_name(path: &MemoryPath) -> String {
    let short = short_path(path);
    short.rsplit_once('/').map_or(short.clone(), |(_, name)| name.to_owned())
}

/// Checks whether every shell takes a name literally. The completion scripts insert words unquoted, so that a file
/// name in a cloned repository could otherwise put a command on the user's command line.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "._-+,".contains(c);
    !name.starts_with('-') && name.chars().all(plain)
}

/// Runs a lookup with the flags typed so far; `None` if they are invalid or it takes too long.
fn with_read_only_app<T>(find: impl AsyncFnOnce(&ReadOnlyApp) -> T) -> Option<T> {
    let app = ReadOnlyApp::new(&globals()).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let result = runtime.block_on(async { with_timeout(COMPLETE_WAIT, find(&app)).await });
    runtime.block_on(async { with_timeout(COMPLETE_WAIT, app.close()).await });
    runtime.shutdown_background();
    result
}

async fn with_timeout<T>(wait: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(wait, future).await.ok()
}

/// Parses the flags among the words typed so far, ignoring errors.
fn globals() -> Globals {
    let typed = app::raw_args().skip_while(|word| word != "--").skip(1);
    let grammar = Cli::command().ignore_errors(true);
    let matches = grammar.try_get_matches_from(typed);
    matches.ok().and_then(|matches| Globals::from_arg_matches(&matches).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lookup_belongs_to_an_argument() {
        fn walk(command: &Command, found: &mut Vec<String>) {
            let name = command.get_name();
            let ids = command.get_arguments().map(|argument| argument.get_id().as_str());
            let looked_up = ids.filter(|id| lookup(name, id).is_some());
            found.extend(looked_up.map(|id| format!("{name}.{id}")));
            command.get_subcommands().for_each(|command| walk(command, found));
        }
        let mut found = Vec::new();
        walk(&Cli::command(), &mut found);
        found.sort_unstable();
        assert_eq!(
            found.join(" "),
            "accept.ids accept.paths create.path create.rules diff.revision diff.subject \
             edit.path edit.rules export.path forget.file grep.path import.rules import.to \
             insert.path insert.rules log.path log.task ls.path mv.from mv.rules mv.to pin.paths \
             reject.ids replace.path replace.rules rm.paths save.rules show.change show.id \
             tasks.cancel undo.change undo.task unpin.paths view.path"
        );
    }

    #[test]
    fn only_names_that_every_shell_takes_literally_are_offered() {
        for name in ["a.md", "über-uns_2.md", "a+b,c.md"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["a b.md", "$(id).md", "`id`", "a;b", "a&b", "-rf", "it's", "a(b)", "#a", "!a"]
        {
            assert!(!is_plain(name), "{name}");
        }
    }
}

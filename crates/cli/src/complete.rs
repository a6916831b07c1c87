//! Completion: what a shell asks for while somebody types.
//!
//! A shell runs the program with `COMPLETE` set and the words typed so far; what is printed then is
//! what it offers. Memories, folders and changes are looked up as a glance: nothing is written, and
//! what fails offers nothing and says nothing, for nobody asked.

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

/// The variable by which a shell asks.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// The most names that are offered of one folder: nobody reads more.
const NAMES_MAX: usize = 1_000;

/// The most changes that are offered, the newest.
const CHANGES_MAX: usize = 50;

/// The most tasks that are offered, the newest.
const TASKS_MAX: usize = 20;

/// How long a shell is kept waiting: a person has gone on typing then.
const COMPLETE_WAIT: Duration = Duration::from_secs(2);

/// What is offered for a word that was begun.
type Lookup = fn(&OsStr) -> Vec<CompletionCandidate>;

/// Answers a shell; `None` when none asked. Must come before any thread and any output.
pub(crate) fn answer() -> Option<Status> {
    let (words, here) = (app::raw_args(), app::current_folder());
    let asked = CompleteEnv::with_factory(|| with_lookups(Cli::command())).var(VARIABLE);
    match asked.try_complete(words, here.as_deref()) {
        Ok(answered) => answered.then_some(Status::Done),
        // No such shell is known. The person who set the variable is told.
        Err(error) => error.print().map_or(Some(Status::Fault), |()| Some(Status::Usage)),
    }
}

/// Returns a command whose arguments, and those of its subcommands, are looked up.
fn with_lookups(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let with_lookup = |argument: Arg| match lookup(&name, argument.get_id().as_str()) {
        Some(lookup) => argument.add(ArgValueCompleter::new(lookup)),
        None => argument,
    };
    command.mut_args(with_lookup).mut_subcommands(with_lookups)
}

/// Returns what is looked up for an argument of a command, by the name of its field.
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
        // Of `lukasa pending`.
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
    ids(typed, async |glimpse: &ReadOnlyApp| {
        let recorded = glimpse.memories.recorded_changes(&query).await.unwrap_or_default();
        let told =
            |one: &MemoryChange| (one.id.0.to_string(), change::summary(&glimpse.memories, one));
        recorded.iter().map(told).collect()
    })
}

/// Offers the newest tasks; none where they cannot be looked at.
fn tasks(typed: &OsStr) -> Vec<CompletionCandidate> {
    ids(typed, async |glimpse: &ReadOnlyApp| {
        let lane = TaskClient::new(&glimpse.engine, glimpse.workspace());
        let filter = TaskFilter { max: Some(TASKS_MAX), ..TaskFilter::default() };
        let listed = lane.list(filter).await.unwrap_or_default();
        listed.iter().map(|one| (one.id.to_string(), one.status().as_str().to_owned())).collect()
    })
}

/// Offers the proposals that wait.
fn proposals(typed: &OsStr) -> Vec<CompletionCandidate> {
    ids(typed, async |glimpse: &ReadOnlyApp| {
        let pending = glimpse.engine.proposal_queue();
        let page = pending.list(&glimpse.memories, None, PROPOSALS_LISTED_MAX).await;
        page.unwrap_or_default().proposals.iter().map(pending::number_and_title).collect()
    })
}

/// Offers ids that begin as typed, each with what it is about, in the order in which they were found.
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
    let (folder, begun) = match typed.rsplit_once('/') {
        Some((folder, begun)) => (folder, begun),
        None => ("", typed),
    };
    if folder.is_empty() && typed.starts_with('/') {
        let whole = "/memories/";
        let offered = whole.starts_with(typed).then(|| CompletionCandidate::new(whole));
        return offered.into_iter().collect();
    }
    let glanced = with_read_only_app(async |glimpse: &ReadOnlyApp| {
        let folder = glimpse.path(folder).ok()?;
        Some(glimpse.memories.list_names(&folder, NAMES_MAX).await)
    });
    let before = typed.strip_suffix(begun).unwrap_or_default();
    let glanced = glanced.flatten().unwrap_or_default().into_iter();
    glanced
        .filter(|glanced| with_memories || !glanced.is_memory)
        .filter_map(|CompletionEntry { path, is_memory }| {
            let name = last_name(&path);
            let slash = if is_memory { "" } else { "/" };
            let fits = name.starts_with(begun) && is_plain(&name);
            fits.then(|| CompletionCandidate::new(format!("{before}{name}{slash}")))
        })
        .collect()
}

fn last_name(path: &MemoryPath) -> String {
    let short = short_path(path);
    short.rsplit_once('/').map_or(short.clone(), |(_, name)| name.to_owned())
}

/// Tells whether a name means itself to every shell. The scripts hand words on unquoted, so that a
/// clone could put a command on somebody's command line by the name of a file.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "._-+,".contains(c);
    !name.starts_with('-') && name.chars().all(plain)
}

/// Looks with what has been typed so far; `None` when that leads nowhere or takes too long.
fn with_read_only_app<T>(look: impl AsyncFnOnce(&ReadOnlyApp) -> T) -> Option<T> {
    let glimpse = ReadOnlyApp::new(&globals()).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let looked = runtime.block_on(async { with_timeout(COMPLETE_WAIT, look(&glimpse)).await });
    runtime.block_on(async { with_timeout(COMPLETE_WAIT, glimpse.close()).await });
    runtime.shutdown_background();
    looked
}

async fn with_timeout<T>(wait: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(wait, future).await.ok()
}

/// Reads the flags among the words typed so far, as far as they make sense.
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
    fn the_arguments_that_are_looked_up_are_those_of_the_grammar() {
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
    fn a_name_is_offered_when_every_shell_takes_it_literally() {
        for name in ["a.md", "über-uns_2.md", "a+b,c.md"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["a b.md", "$(id).md", "`id`", "a;b", "a&b", "-rf", "it's", "a(b)", "#a", "!a"]
        {
            assert!(!is_plain(name), "{name}");
        }
    }
}

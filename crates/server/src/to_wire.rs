//! Conversion of the engine's values to those of the public wire.
//!
//! All fields are written out, so that a field added to a value of the engine becomes public only when it is added
//! here too. Nothing is decided here. The other direction is `from_wire.rs`.

mod events;
mod health;
mod pending;

use std::collections::BTreeSet;

use engine::{
    FactExclusion, LastWrite, Memories, MemoryDetails, MemoryText, NextDream, RootHealth,
    TaskDetails, TaskResult, TaskState,
};
use memory::change::{MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::command::Warning;
use memory::document::Revision;
use memory::path::{MemoryPath, Mount, Scope};
use memory::tool::ToolOutput;
use protocol::{changes, context_files, conversation, memories, status, task};

use crate::twins::Twin;

pub(crate) use events::event;
pub(crate) use health::{health, repaired};
pub(crate) use pending::{decisions, proposal};

/// Formats a time as ISO 8601 in UTC, with milliseconds.
pub(crate) fn time(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// Converts a count to the integer type of the wire.
pub(crate) fn count(count: usize) -> u64 {
    u64::try_from(count).expect("a length fits 64 bits")
}

/// Returns the scope that the task API has for a mount. Published clients know only two.
pub(crate) const fn target_scope(mount: Mount) -> task::TargetScope {
    match mount {
        Mount::Scope(Scope::Global) => task::TargetScope::User,
        Mount::Scope(Scope::Project | Scope::Workspace) | Mount::Flat => task::TargetScope::Project,
    }
}

/// Returns the task API's scopes of some mounts, without duplicates.
pub(crate) fn target_scopes(mounts: &BTreeSet<Mount>) -> Vec<task::TargetScope> {
    let scopes: BTreeSet<_> = mounts.iter().map(|&mount| target_scope(mount)).collect();
    scopes.into_iter().collect()
}

/// Converts loaded context files.
pub(crate) fn loaded_context(shown: engine::ContextText) -> context_files::LoadedContext {
    let files = shown.files.iter().map(loaded_file).collect();
    let skipped = shown.skipped.iter().map(skipped_file).collect();
    context_files::LoadedContext { text: shown.text, files, skipped }
}

fn loaded_file(file: &engine::ShownFile) -> context_files::LoadedFile {
    context_files::LoadedFile {
        path: file.path.display().to_string(),
        scope: file.scope.twin(),
        parent: file.parent.as_ref().map(|parent| parent.display().to_string()),
        bytes: count(file.bytes),
        tokens: count(file.tokens),
        cut: file.is_cut,
    }
}

fn skipped_file(file: &engine::SkippedContextSource) -> context_files::SkippedFile {
    context_files::SkippedFile {
        path: file.path.display().to_string(),
        parent: file.parent.as_ref().map(|parent| parent.display().to_string()),
        why: file.reason.to_string(),
    }
}

/// Converts the context of a segment, with the reason why each memory is in it. `facts` is the number of all facts.
pub(crate) fn explained(
    context: conversation::SegmentContext,
    showing: &engine::SegmentReport,
    facts: usize,
) -> conversation::ExplainedContext {
    let hot = showing.facts.iter().map(|source| conversation::HotMemory {
        path: source.path.to_string(),
        pinned: source.pinned,
        uses: source.uses,
        heat: source.heat,
        shown: source.is_shown(),
        whole: source.is_shown() && source.count.shown == source.count.all,
        facts_shown: count(source.count.shown),
        facts: count(source.count.all),
        why: why_shown(source, showing.size),
    });
    conversation::ExplainedContext {
        context,
        memories: count(showing.memories),
        facts_shown: count(showing.facts_shown()),
        facts: count(facts),
        files: showing.files.iter().map(loaded_file).collect(),
        skipped: showing.skipped.iter().map(skipped_file).collect(),
        hot: hot.collect(),
    }
}

/// Returns the reason why facts of a memory are in the context or not, in sentences.
fn why_shown(source: &engine::FactSource, size: engine::StoreSize) -> String {
    match source.kept_out {
        Some(FactExclusion::Conflict) => {
            return "Left out, because it has a merge conflict.".to_owned();
        }
        Some(FactExclusion::Unreviewed) => {
            return "Left out, because no person here reviewed it.".to_owned();
        }
        None => {}
    }
    let uses = match source.uses {
        0 => "never used".to_owned(),
        1 => "used once".to_owned(),
        uses => format!("used {uses} times"),
    };
    let reason = match (source.pinned, size) {
        (true, _) => format!("Pinned, {uses}"),
        (false, engine::StoreSize::Small) => "All facts are given, because they are few".to_owned(),
        (false, engine::StoreSize::Large) => format!("Not pinned, {uses}"),
    };
    match source.count {
        engine::FactCount { shown: 0, all: 0 } => format!("{reason}. It has no facts."),
        engine::FactCount { shown: 0, .. } => format!("{reason}. There was no room left for it."),
        engine::FactCount { shown, all } if shown < all => {
            format!("{reason}. {shown} of its {all} facts are shown.")
        }
        engine::FactCount { .. } => format!("{reason}."),
    }
}

/// Converts the scope of a context file.
pub(crate) const fn context_scope(scope: engine::ContextScope) -> context_files::ContextScope {
    match scope {
        engine::ContextScope::Global => context_files::ContextScope::Global,
        engine::ContextScope::Project => context_files::ContextScope::Workspace,
    }
}

/// Converts a task.
pub(crate) fn task(task: &engine::Task) -> task::Task {
    let (mode, scope) = match &task.request {
        engine::CuratorRequest::Remember(it) => (Some(it.context_mode.twin()), it.scope),
        engine::CuratorRequest::Forget(it) => (None, it.scope),
        engine::CuratorRequest::Dream | engine::CuratorRequest::Review(_) => (None, None),
    };
    let (result, error) = match &task.state {
        TaskState::Queued | TaskState::Running => (None, None),
        TaskState::Completed(result) => (Some(task_result(result)), None),
        TaskState::Failed(error) => (None, Some(task_error(error))),
    };
    task::Task {
        task_id: task.id.to_string(),
        status: task.status().twin(),
        context_mode: mode,
        scope: scope.map(|scope| target_scope(Mount::Scope(scope))),
        created_at: time(task.created_at),
        updated_at: time(task.updated_at),
        result,
        error,
    }
}

/// Converts a task of a list.
pub(crate) fn listed_task(listed: &engine::Task) -> task::ListedTask {
    task::ListedTask {
        kind: listed.kind().twin(),
        workspace_id: listed.workspace.clone(),
        task: task(listed),
    }
}

pub(crate) fn task_result(result: &TaskResult) -> task::TaskResult {
    let topics =
        |topics: &BTreeSet<engine::MemoryTopic>| topics.iter().copied().map(Twin::twin).collect();
    let paths = |files: &[MemoryPath]| files.iter().map(ToString::to_string).collect();
    let summary = result.summary.clone();
    let touched_scopes = target_scopes(&result.scopes);
    let changes = result.changes.iter().map(entry_note).collect();
    let proposals = count(result.proposals.count());
    match &result.details {
        TaskDetails::Remember { files_touched } => {
            task::TaskResult::Remember(task::RememberResult {
                summary,
                files_touched: paths(files_touched),
                touched_scopes,
                changes,
                proposals,
            })
        }
        TaskDetails::Forget { removed, topics: touched, candidates } => {
            let entry = |entry: &engine::ForgottenEntry| task::RemovedEntry {
                topic: entry.topic.twin(),
                summary: entry.summary.clone(),
                file_path: entry.path.to_string(),
            };
            task::TaskResult::Forget(task::ForgetResult {
                summary,
                removed_entries: removed.iter().map(entry).collect(),
                touched_topics: topics(touched),
                touched_scopes,
                changes,
                proposals,
                candidates: candidates.iter().map(candidate).collect(),
            })
        }
        TaskDetails::Dream { topics: touched, deduped } => {
            task::TaskResult::Dream(task::DreamResult {
                summary,
                touched_topics: topics(touched),
                touched_scopes,
                deduped_entries: count(*deduped),
                changes,
                proposals,
            })
        }
        TaskDetails::Review { files_touched, skipped } => {
            let left_out = skipped.iter().map(|(why, count)| (why.as_ref().to_owned(), *count));
            task::TaskResult::Review(task::ReviewResult {
                summary,
                files_touched: paths(files_touched),
                touched_scopes,
                changes,
                proposals,
                left_out: left_out.collect(),
            })
        }
    }
}

fn entry_note(note: &engine::EntryOutcome) -> task::EntryNote {
    task::EntryNote {
        file_path: note.path.to_string(),
        action: note.action.as_ref().to_owned(),
        summary: note.summary.clone(),
    }
}

fn candidate(candidate: &engine::EntryCandidate) -> task::ForgetCandidate {
    task::ForgetCandidate {
        file_path: candidate.path.to_string(),
        entry: candidate.entry.clone(),
        summary: candidate.summary.clone(),
    }
}

fn task_error(error: &engine::TaskError) -> task::TaskError {
    task::TaskError {
        code: error.code.as_str().to_owned(),
        message: error.code.message().to_owned(),
        cause: error.cause.map(|cause| cause.as_ref().to_owned()),
        details: error.details().map(str::to_owned),
    }
}

/// Converts the warnings of screening.
pub(crate) fn warnings(warnings: &[Warning]) -> Vec<memories::Warning> {
    let warning = |warning: &Warning| memories::Warning {
        rule: warning.rule.to_owned(),
        line: count(warning.line),
    };
    warnings.iter().map(warning).collect()
}

/// Returns the trust of a text. A text that history does not know came from outside.
fn trust(last: Option<&LastWrite>) -> String {
    last.map_or(Trust::Outside, |write| write.trust).to_string()
}

/// Converts a memory.
pub(crate) fn memory(
    path: &MemoryPath,
    read: MemoryText,
    last: Option<LastWrite>,
) -> memories::Memory {
    memories::Memory {
        path: path.to_string(),
        text: read.text,
        revision: read.revision.to_string(),
        modified_at: time(read.modified_at),
        trust: trust(last.as_ref()),
        last_written_at: last.as_ref().map(|write| time(write.at)),
        model: last.and_then(|write| write.model),
    }
}

/// Converts a memory of a list.
pub(crate) fn memory_item(details: &MemoryDetails) -> memories::MemoryItem {
    let listed = &details.entry;
    memories::MemoryItem {
        path: listed.path.to_string(),
        scope: listed.path.mount().map_or("", Mount::word).to_owned(),
        description: listed.description.clone(),
        has_description: listed.is_described,
        name: listed.name.clone(),
        kind: listed.kind.clone(),
        bytes: listed.bytes,
        modified_at: time(listed.modified_at),
        revision: details.revision.map(|revision| revision.to_string()),
        pinned: listed.pinned,
        uses: listed.usage.uses,
        last_used_at: listed.usage.last_used_at.map(time),
        last_author: details.last_author.map(|actor| actor.to_string()),
        trust: trust(details.last_write.as_ref()),
        last_written_at: details.last_write.as_ref().map(|write| time(write.at)),
        model: details.last_write.as_ref().and_then(|write| write.model.clone()),
        findings: warnings(&details.findings),
    }
}

/// Converts the result of a call of the memory tool.
pub(crate) fn tool_reply(rendered: ToolOutput) -> memories::ToolReply {
    let ToolOutput { text, is_error, facts } = rendered;
    let word = |name: &str| facts[name].as_str().map(str::to_owned);
    memories::ToolReply {
        ok: !is_error,
        text,
        code: word("code"),
        change: facts["change"].as_i64(),
        revision: word("revision"),
        warnings: serde_json::from_value(facts["warnings"].clone()).unwrap_or_default(),
    }
}

/// Converts a change. Files outside of the caller's mounts are left out.
pub(crate) fn change(change: &MemoryChange, memories: &Memories) -> changes::Change {
    let revision = |revision: Option<Revision>| revision.map(|revision| revision.to_string());
    let file = |file: &memory::change::FileChange| {
        let path = memories.virtual_path(&file.root, &file.path)?;
        let moved_to = file.moved_to.as_ref().and_then(|to| memories.virtual_path(&file.root, to));
        Some(changes::ChangedFile {
            path: path.to_string(),
            moved_to: moved_to.map(|path| path.to_string()),
            before: revision(file.before),
            after: revision(file.after),
        })
    };
    let provenance = &change.provenance;
    changes::Change {
        id: change.id.0,
        at: time(change.at),
        kind: change.kind.to_string(),
        actor: provenance.actor.to_string(),
        trust: provenance.trust.as_ref().to_owned(),
        origin: provenance.origin.clone(),
        client: provenance.client.clone(),
        session: provenance.session.clone(),
        task: provenance.task.clone(),
        tool_call: provenance.tool_call.clone(),
        model: provenance.model.clone(),
        note: provenance.note.clone(),
        undoes: change.undoes.map(|id| id.0),
        files: change.files.iter().filter_map(file).collect(),
    }
}

/// Converts the diff of a memory.
pub(crate) fn diff(diff: engine::FileDiff) -> changes::Diff {
    changes::Diff { path: diff.path.to_string(), diff: diff.unified, kept: diff.is_complete }
}

/// Converts the report of an undo.
pub(crate) fn undone(undone: &engine::UndoReport) -> changes::UndoResponse {
    changes::UndoResponse {
        change: undone.change.map(|id| id.0),
        undone: undone.undone.iter().map(|id| id.0).collect(),
        paths: undone.paths.iter().map(ToString::to_string).collect(),
        warnings: warnings(&undone.warnings),
    }
}

/// Converts a model run.
pub(crate) fn model_run(work: &engine::ModelWork) -> protocol::runs::ModelRun {
    protocol::runs::ModelRun {
        number: work.number,
        task: work.task.clone(),
        agent: work.agent.clone(),
        model: work.model.clone(),
        started_at: time(work.began_at),
        ended_at: time(work.ended_at),
        ended: work.ended.clone(),
        background: work.is_background,
        turns: work.turns,
        calls: work.calls,
        refused: work.refused,
        tokens_in: work.tokens_in,
        tokens_cached: work.tokens_cached,
        tokens_out: work.tokens_out,
        cost: work.cost,
        why: work.why.clone(),
    }
}

/// Converts a run: the changes of a task or session.
pub(crate) fn run(run: &engine::HistoryRun, status: Option<engine::Status>) -> protocol::runs::Run {
    use protocol::runs::{Run, RunKind};
    let (kind, id) = match &run.source {
        engine::RunSource::Task(id) => (RunKind::Task, id),
        engine::RunSource::Session(id) => (RunKind::Session, id),
    };
    Run {
        kind,
        id: id.clone(),
        actor: run.actor.to_string(),
        client: run.client.clone(),
        model: run.model.clone(),
        started_at: time(run.started_at),
        ended_at: time(run.ended_at),
        changes: run.changes.iter().map(|id| id.0).collect(),
        memories: count(run.memories.len()),
        status: status.map(Twin::twin),
    }
}

/// Converts the conditions of the next scheduled dream.
pub(crate) fn next_dream(next: NextDream) -> status::NextDream {
    let NextDream { not_before, sessions_missing } = next;
    status::NextDream { not_before: not_before.map(time), sessions_missing }
}

/// Converts the counts of a scope.
pub(crate) fn scope_stats(root: &RootHealth) -> status::ScopeStats {
    status::ScopeStats {
        scope: root.mount.word().to_owned(),
        unavailable: root.unavailable.clone(),
        memories: count(root.files),
        memories_max: count(root.files_max),
        bytes: root.bytes,
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    #[test]
    fn published_clients_see_two_scopes_each_once() {
        let all = [
            Mount::Scope(Scope::Global),
            Mount::Scope(Scope::Project),
            Mount::Scope(Scope::Workspace),
        ];
        let scopes = target_scopes(&all.into_iter().collect());
        assert_eq!(scopes, [task::TargetScope::Project, task::TargetScope::User]);
    }

    #[test]
    fn a_time_has_milliseconds() {
        assert_eq!(time(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn every_code_of_memories_is_one_of_the_wire() {
        for &code in memory::error_code::MemoryErrorCode::VARIANTS {
            assert_eq!(crate::error::wire_code(code).as_ref(), code.as_ref());
        }
    }
}

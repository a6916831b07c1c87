//! Encoding and decoding of the messages between a daemon and its child processes.
//!
//! Both directions are in this file, because each is the inverse of the other. A child is not trusted: a value that a
//! child of this version would not send decodes to `None`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use engine::{
    BindingRequest, CuratorRequest, EntryCandidate, EntryOutcome, ForgottenEntry, ProjectFolder,
    ProjectRoot, ReviewMessage, ReviewRequest, RunReport, StagedAttempt, StagedEdit, TaskDetails,
    TaskId, TaskKind, TaskProposals, TaskResult, TokenUsage, Workspace, WorkspaceChoice,
    parse_memory_path, redact_for_display,
};
use memory::limits::TASK_DETAILS_CHARS_MAX;
use memory::path::{Layout, MemoryPath, Mount};
use memory::proposal::{EntryChange, EntryReference, Proposal};
use protocol::acp::{
    ProposalDependency, ProposedChange, STAGE_VERSION, StageFileEdit, StageFolder, StageParams,
    StageReview, StageWorkspace, StagedAnswer, StagedProposal, WorkReport,
};
use protocol::task;
use serde_json::{Map, Value, json};

use crate::twins::Twin;
use crate::{from_wire, to_wire};

/// The upper bound of token counts of a child; no real task reaches it.
const COUNT_MAX: u64 = 1_000_000_000_000;

/// Encodes a task as the parameters of a call.
pub(super) fn parameters(task: &TaskId, request: &CuratorRequest, workspace: &Workspace) -> Value {
    let scope = match request {
        CuratorRequest::Remember(remember) => remember.scope,
        CuratorRequest::Forget(forget) => forget.scope,
        CuratorRequest::Dream | CuratorRequest::Review(_) => None,
    };
    let review = match request {
        CuratorRequest::Review(review) => Some(review_to_wire(review)),
        CuratorRequest::Remember(_) | CuratorRequest::Forget(_) | CuratorRequest::Dream => None,
    };
    let stage = StageParams {
        v: STAGE_VERSION,
        task: task.to_string(),
        scope: scope.map(|scope| scope.as_ref().to_owned()),
        workspace: stage_workspace(workspace),
        review,
    };
    let mut fields = json!({ "_meta": { "lukasa": { "stage": stage } } });
    match request {
        CuratorRequest::Remember(remember) => {
            fields["content"] = remember.content.clone().into();
            let mode: task::ContextMode = remember.context_mode.twin();
            fields["contextMode"] = mode.as_ref().into();
        }
        CuratorRequest::Forget(forget) => {
            fields["query"] = forget.query.clone().into();
            fields["filePath"] = forget.file.as_ref().map(ToString::to_string).into();
        }
        CuratorRequest::Dream | CuratorRequest::Review(_) => {}
    }
    fields
}

fn review_to_wire(review: &ReviewRequest) -> StageReview {
    let pair = |message: &ReviewMessage| (message.role.as_ref().to_owned(), message.text.clone());
    StageReview {
        session: review.session.clone(),
        turns: review.turns,
        moment: review.trigger.as_ref().to_owned(),
        messages: review.messages.iter().map(pair).collect(),
    }
}

/// Decodes a review.
pub(super) fn read_review(stage: StageParams) -> Option<StageRequest> {
    let StageReview { session, turns, moment, messages } = stage.review.clone()?;
    let messages = messages.into_iter().enumerate();
    let message = |(index, (role, text)): (usize, (String, String))| {
        Some(ReviewMessage { id: format!("m{}", index + 1), role: role.parse().ok()?, text })
    };
    let messages = messages.map(message).collect::<Option<_>>()?;
    let trigger = moment.parse().ok()?;
    read_request(stage, CuratorRequest::Review(ReviewRequest { session, turns, trigger, messages }))
}

/// Encodes a workspace as the parameters of an availability query.
pub(super) fn workspace_parameters(workspace: &Workspace) -> Value {
    json!({ "_meta": { "lukasa": { "workspace": stage_workspace(workspace) } } })
}

fn stage_workspace(workspace: &Workspace) -> StageWorkspace {
    let BindingRequest { project, no_project, project_root, workspace: mounted, flat, read_only } =
        &workspace.binding;
    let path = |path: &PathBuf| path.clone().into_os_string();
    StageWorkspace {
        cwd: stage_folder(&workspace.cwd),
        project: project.as_ref().map(stage_folder),
        no_project: no_project.clone(),
        project_on_host: *project_root == ProjectRoot::Host,
        workspace_id: match mounted {
            WorkspaceChoice::Id(id) => Some(id.to_string()),
            WorkspaceChoice::Checkout | WorkspaceChoice::None => None,
        },
        of_checkout: *mounted == WorkspaceChoice::Checkout,
        flat: flat.as_ref().map(path),
        read_only: *read_only,
    }
}

fn stage_folder(folder: &ProjectFolder) -> StageFolder {
    match folder {
        ProjectFolder::Local(path) => StageFolder::Local(path.clone().into_os_string()),
        ProjectFolder::Remote(remote) => StageFolder::Remote(remote.to_string()),
    }
}

fn read_folder(folder: StageFolder) -> Option<ProjectFolder> {
    match folder {
        StageFolder::Local(path) => Some(ProjectFolder::Local(path.into())),
        StageFolder::Remote(address) => Some(ProjectFolder::Remote(address.parse().ok()?)),
    }
}

/// Decodes a workspace.
pub(super) fn read_workspace(of: StageWorkspace) -> Option<Workspace> {
    let mounted = match (of.workspace_id, of.of_checkout) {
        (Some(id), _) => WorkspaceChoice::Id(id.parse().ok()?),
        (None, true) => WorkspaceChoice::Checkout,
        (None, false) => WorkspaceChoice::None,
    };
    let project = match of.project {
        Some(project) => Some(read_folder(project)?),
        None => None,
    };
    let binding = BindingRequest {
        project,
        no_project: of.no_project,
        project_root: if of.project_on_host { ProjectRoot::Host } else { ProjectRoot::Repo },
        workspace: mounted,
        flat: of.flat.map(PathBuf::from),
        read_only: of.read_only,
    };
    Some(Workspace::new(read_folder(of.cwd)?, binding))
}

/// A decoded request of a daemon.
#[derive(Debug)]
pub(super) struct StageRequest {
    pub(super) task: TaskId,
    pub(super) request: CuratorRequest,
    pub(super) workspace: Workspace,
}

/// Decodes the part of a task that only a daemon sends, and adds it to the request.
pub(super) fn read_request(
    stage: StageParams,
    mut request: CuratorRequest,
) -> Option<StageRequest> {
    if stage.v != STAGE_VERSION {
        return None;
    }
    let scope = stage.scope.map(|scope| scope.parse()).transpose().ok()?;
    match &mut request {
        CuratorRequest::Remember(remember) => remember.scope = scope,
        CuratorRequest::Forget(forget) => forget.scope = scope,
        CuratorRequest::Dream | CuratorRequest::Review(_) => {}
    }
    let task: TaskId = stage.task.parse().ok()?;
    (task.kind() == request.kind()).then_some(())?;
    Some(StageRequest { task, request, workspace: read_workspace(stage.workspace)? })
}

/// Encodes the answer of a child.
pub(super) fn answer_to_wire(
    staged: &StagedAttempt,
    report: &RunReport,
) -> Result<Value, serde_json::Error> {
    let proposed = match &staged.result.proposals {
        TaskProposals::Unstored(proposals) => proposals.iter().map(proposal_to_wire).collect(),
        TaskProposals::Stored(_) => Vec::new(),
    };
    let more = StagedAnswer {
        edits: staged
            .edits
            .iter()
            .map(|edit| StageFileEdit {
                path: edit.path.to_string(),
                base: edit.base.map(|base| base.to_string()),
                text: edit.text.clone(),
            })
            .collect(),
        scopes: staged.result.scopes.iter().map(|of| of.word().to_owned()).collect(),
        proposed,
        decided_by: staged.model.clone(),
        because: staged.reason.clone(),
        report: report_to_wire(report),
    };
    let mut fields = serde_json::to_value(to_wire::task_result(&staged.result))?;
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, serde_json::to_value(more)?)
    {
        fields.extend(more);
    }
    Ok(fields)
}

fn proposal_to_wire(proposal: &Proposal) -> StagedProposal {
    StagedProposal {
        kind: proposal.kind.as_ref().to_owned(),
        reason: proposal.reason.clone(),
        score: proposal.score,
        changes: proposal
            .changes
            .iter()
            .map(|change| ProposedChange {
                path: change.path.to_string(),
                old: change.old.clone(),
                new: change.new.clone(),
            })
            .collect(),
        relies_on: proposal
            .relies_on
            .iter()
            .map(|entry| ProposalDependency {
                path: entry.path.to_string(),
                text: entry.text.clone(),
            })
            .collect(),
    }
}

/// Encodes a report of model runs.
pub(super) fn report_to_wire(report: &RunReport) -> WorkReport {
    WorkReport {
        agent: report.agent.map(str::to_owned),
        model: report.model.clone(),
        turns: report.turns,
        calls: report.calls,
        refused: report.refused_calls,
        tokens_in: report.usage.tokens_in,
        tokens_cached: report.usage.tokens_cached,
        tokens_out: report.usage.tokens_out,
        cost: report.usage.cost,
        fallback: report.fallback.clone(),
        failed: report.failure.clone(),
    }
}

/// Decodes a report of model runs. Its texts are redacted and its counts bounded.
pub(super) fn report_from_wire(report: &WorkReport) -> RunReport {
    let count = |count: u64| count.min(COUNT_MAX);
    RunReport {
        agent: report.agent.as_deref().and_then(RunReport::agent),
        model: report.model.as_deref().and_then(redact_for_display),
        turns: report.turns,
        calls: report.calls,
        refused_calls: report.refused,
        usage: TokenUsage {
            tokens_in: count(report.tokens_in),
            tokens_cached: count(report.tokens_cached),
            tokens_out: count(report.tokens_out),
            cost: report.cost.filter(|cost| cost.is_finite() && *cost >= 0.0),
        },
        fallback: report.fallback.as_deref().and_then(redact_for_display),
        failure: report.failed.as_deref().and_then(redact_for_display),
    }
}

/// A decoded answer of a child.
#[derive(Debug)]
pub(super) struct StageAnswer {
    pub(super) edits: Vec<StagedEdit>,
    pub(super) result: TaskResult,
    pub(super) decided_by: Option<String>,
    pub(super) decision_reason: Option<String>,
    pub(super) report: RunReport,
    /// Whether a path of the result is not a memory path.
    pub(super) has_invalid_path: bool,
}

/// Decodes the answer of a child.
pub(super) fn read_answer(
    fields: Value,
    (kind, layout): (TaskKind, Layout),
) -> Option<StageAnswer> {
    let more: StagedAnswer = serde_json::from_value(fields.clone()).ok()?;
    let edit = |edit: StageFileEdit| {
        let base = match edit.base.map(|base| base.parse()) {
            Some(Err(_)) => return None,
            Some(Ok(base)) => Some(base),
            None => None,
        };
        Some(StagedEdit { path: edit.path, base, text: edit.text })
    };
    let edits: Vec<StagedEdit> = more.edits.into_iter().map(edit).collect::<Option<_>>()?;
    let mount = |word: &String| from_wire::mount(word, layout);
    let scopes: BTreeSet<Mount> = more.scopes.iter().map(mount).collect::<Option<_>>()?;
    let mut reader = AnswerReader { layout, has_invalid_path: false };
    let proposals: Vec<Proposal> = more
        .proposed
        .into_iter()
        .map(|proposal| reader.proposal(proposal))
        .collect::<Option<_>>()?;
    let result = reader.result(fields, kind, (scopes, proposals.into()))?;
    Some(StageAnswer {
        edits,
        result,
        decided_by: more.decided_by.as_deref().and_then(redact_for_display),
        decision_reason: more.because.as_deref().map(one_line),
        report: report_from_wire(&more.report),
        has_invalid_path: reader.has_invalid_path,
    })
}

/// A decoder of the parts of a result, which records whether any path is invalid.
struct AnswerReader {
    layout: Layout,
    has_invalid_path: bool,
}

impl AnswerReader {
    fn path(&mut self, path: &str) -> Option<MemoryPath> {
        let read = parse_memory_path(path, self.layout);
        self.has_invalid_path |= read.is_none();
        read
    }

    fn result(
        &mut self,
        fields: Value,
        kind: TaskKind,
        (scopes, proposals): (BTreeSet<Mount>, TaskProposals),
    ) -> Option<TaskResult> {
        let (summary, changes, details) = match kind {
            TaskKind::Remember => {
                let of: task::RememberResult = serde_json::from_value(fields).ok()?;
                let files_touched = self.paths(&of.files_touched);
                (of.summary, of.changes, TaskDetails::Remember { files_touched })
            }
            TaskKind::Review => {
                let of: task::ReviewResult = serde_json::from_value(fields).ok()?;
                let reason = |(word, count): (&String, &u32)| Some((word.parse().ok()?, *count));
                let skipped = of.left_out.iter().map(reason).collect::<Option<_>>()?;
                let files_touched = self.paths(&of.files_touched);
                (of.summary, of.changes, TaskDetails::Review { files_touched, skipped })
            }
            TaskKind::Forget => {
                let of: task::ForgetResult = serde_json::from_value(fields).ok()?;
                let removed = of.removed_entries.into_iter().filter_map(|entry| {
                    let path = self.path(&entry.file_path)?;
                    Some(ForgottenEntry {
                        topic: entry.topic.twin(),
                        summary: one_line(&entry.summary),
                        path,
                    })
                });
                let details = TaskDetails::Forget {
                    removed: removed.collect(),
                    topics: of.touched_topics.into_iter().map(Twin::twin).collect(),
                    candidates: self.candidates(of.candidates),
                };
                (of.summary, of.changes, details)
            }
            TaskKind::Dream => {
                let of: task::DreamResult = serde_json::from_value(fields).ok()?;
                let topics = of.touched_topics.into_iter().map(Twin::twin).collect();
                let deduped = usize::try_from(of.deduped_entries).ok()?;
                (of.summary, of.changes, TaskDetails::Dream { topics, deduped })
            }
        };
        let (summary, changes) = (one_line(&summary), self.notes(changes)?);
        Some(TaskResult { summary, scopes, changes, proposals, details })
    }

    fn paths(&mut self, paths: &[String]) -> Vec<MemoryPath> {
        paths.iter().filter_map(|path| self.path(path)).collect()
    }

    fn notes(&mut self, notes: Vec<task::EntryNote>) -> Option<Vec<EntryOutcome>> {
        let mut read = Vec::with_capacity(notes.len());
        for note in notes {
            let action = note.action.parse().ok()?;
            let Some(path) = self.path(&note.file_path) else { continue };
            read.push(EntryOutcome { path, action, summary: one_line(&note.summary) });
        }
        Some(read)
    }

    fn candidates(&mut self, candidates: Vec<task::ForgetCandidate>) -> Vec<EntryCandidate> {
        let decoded = candidates.into_iter().filter_map(|candidate| {
            let path = self.path(&candidate.file_path)?;
            let summary = one_line(&candidate.summary);
            Some(EntryCandidate { path, entry: candidate.entry, summary })
        });
        decoded.collect()
    }

    fn proposal(&mut self, proposed: StagedProposal) -> Option<Proposal> {
        let mut changes = Vec::new();
        for ProposedChange { path, old, new } in proposed.changes {
            changes.push(EntryChange { path: self.path(&path)?, old, new });
        }
        let mut relies_on = Vec::new();
        for ProposalDependency { path, text } in proposed.relies_on {
            relies_on.push(EntryReference { path: self.path(&path)?, text });
        }
        let is_valid = !changes.is_empty() && proposed.score <= 100;
        is_valid.then_some(Proposal {
            kind: proposed.kind.parse().ok()?,
            reason: one_line(&proposed.reason),
            score: proposed.score,
            changes,
            relies_on,
            review: None,
        })
    }
}

/// Returns a text on one line and of bounded length.
fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    shown.take(4 * TASK_DETAILS_CHARS_MAX).collect()
}

/// Returns a part of `_meta.lukasa`, which only Lukasa's daemon sends.
pub(super) fn meta(fields: &Map<String, Value>, part: &str) -> Option<Value> {
    fields.get("_meta")?.get("lukasa")?.get(part).cloned()
}

#[cfg(test)]
mod tests;

//! `lukasa pending`: lists and shows the waiting proposals, and accepts or rejects them.

use engine::{DecisionError, Memories, PendingProposal, ProposalDecision};
use memory::clock::Timestamp;
use memory::limits::PROPOSALS_LISTED_MAX;
use memory::path::MemoryPath;
use memory::proposal::ProposalId;
use serde_json::{Value, json};

use crate::app::{App, call, now};
use crate::args::{PendingAction, PendingArgs, ProposalSelection};
use crate::commands::{ask, with_change};
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::text::TextBuffer;
use crate::render::{
    FAINT, MARK, OutputStyle, STRONG, WARN, change, counted, sanitize, short_path, table, time,
};

/// The number of memories that a line of the list names per proposal.
const NAMED_MAX: usize = 2;

/// Lists proposals, shows one, or decides on some.
pub(crate) async fn run(app: &App, args: &PendingArgs) -> Result<Status, Failure> {
    match &args.action {
        None | Some(PendingAction::Ls) => list(app).await,
        Some(PendingAction::Show(args)) => show(app, ProposalId(args.id)).await,
        Some(PendingAction::Accept(args)) => decide(app, &args.selection, Verb::Accept).await,
        Some(PendingAction::Reject(args)) => decide(app, &args.selection, Verb::Reject).await,
    }
}

/// Returns a line with the number of waiting proposals, if there are any.
pub(crate) fn waiting_line(count: u64) -> Option<String> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    match count {
        0 => None,
        1 => Some("1 proposal waits: `lukasa pending`".to_owned()),
        _ => Some(format!("{count} proposals wait: `lukasa pending`")),
    }
}

async fn list(app: &App) -> Result<Status, Failure> {
    let memories = app.memories();
    let waiting = app.wait_with_progress("listing", all(app, &memories)).await?;
    if app.output.json {
        let proposals: Vec<_> = waiting.iter().map(value).collect();
        app.output.value(&json!({ "proposals": proposals }))?;
        return Ok(Status::Done);
    }
    if waiting.is_empty() {
        app.output.note("no proposals wait");
    } else if app.output.style.columns {
        app.output.text(&columns(&waiting, now(), app.output.style))?;
    } else {
        app.output.text(&waiting.iter().map(plain_line).collect::<String>())?;
    }
    if !waiting.is_empty() && app.output.style.terminal {
        app.output.note("`lukasa pending show ID` shows one; `accept ID` or `reject ID` decides");
    }
    Ok(Status::Done)
}

/// Returns all waiting proposals, oldest first.
async fn all(app: &App, memories: &Memories) -> Result<Vec<PendingProposal>, Failure> {
    let pending = app.engine.proposal_queue();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = pending.list(memories, after, PROPOSALS_LISTED_MAX).await?;
        found.extend(page.proposals);
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

fn columns(waiting: &[PendingProposal], now: Timestamp, look: OutputStyle) -> String {
    let columns = [
        Column::right("ID").styled(MARK),
        Column::right("AGE").styled(FAINT),
        Column::left("KIND"),
        Column::left("WHERE").styled(STRONG),
        Column::left("WHY"),
    ];
    let row = |item: &PendingProposal| {
        let (kind, why) = match &item.stale {
            None => (item.proposal.kind.as_ref(), item.proposal.reason.clone()),
            Some(why) => ("stale", reason_without_path(why, item)),
        };
        let (id, age) = (item.id.to_string(), time::ago(item.made_at, now));
        vec![id, age, kind.to_owned(), named(item), sanitize::line(&why).into_owned()]
    };
    table::aligned(&columns, waiting.iter().map(row), look)
}

/// Returns the reason why a proposal is stale, without the path if it names only one memory.
fn reason_without_path(why: &str, item: &PendingProposal) -> String {
    let why = match paths(item)[..] {
        [path] => why.strip_prefix(&format!("{path}: ")).unwrap_or(why),
        _ => why,
    };
    why.strip_prefix("/memories/").unwrap_or(why).to_owned()
}

fn plain_line(item: &PendingProposal) -> String {
    let (made_at, kind, score) =
        (time::exact(item.made_at), item.proposal.kind, item.proposal.score);
    let state = if item.stale.is_some() { "stale" } else { "waiting" };
    let paths: Vec<_> = paths(item).into_iter().map(short_path).collect();
    let (paths, reason) = (paths.join(","), sanitize::line(&item.proposal.reason));
    format!("{}\t{made_at}\t{state}\t{kind}\t{score}\t{paths}\t{reason}\n", item.id)
}

/// Returns the memories that a proposal would change, or asks to review, each once.
fn paths(item: &PendingProposal) -> Vec<&MemoryPath> {
    let changed = item.proposal.changes.iter().map(|change| &change.path);
    let mut paths: Vec<_> =
        changed.chain(item.proposal.review.iter().map(|review| &review.path)).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn named(item: &PendingProposal) -> String {
    let paths = paths(item);
    let mut named: Vec<_> = paths.iter().take(NAMED_MAX).map(|path| short_path(path)).collect();
    if let Some(more) = paths.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        named.push(format!("and {more} more"));
    }
    sanitize::line(&named.join(", ")).into_owned()
}

async fn show(app: &App, id: ProposalId) -> Result<Status, Failure> {
    let memories = app.memories();
    let shown = app.engine.proposal_queue().get(&memories, id).await.map_err(failure)?;
    if app.output.json {
        app.output.value(&value(&shown))?;
    } else {
        app.output.text(&full_text(&shown, now(), app.output.style))?;
    }
    Ok(Status::Done)
}

fn full_text(item: &PendingProposal, now: Timestamp, look: OutputStyle) -> String {
    let proposal = &item.proposal;
    let mut lines = vec![
        ("kind", proposal.kind.to_string()),
        ("why", proposal.reason.clone()),
        ("score", format!("{} %", proposal.score)),
        ("made", format!("{} ({})", time::local(item.made_at), time::ago(item.made_at, now))),
        ("by", item.task.clone().unwrap_or_else(|| item.origin.clone())),
    ];
    for kept in &proposal.relies_on {
        lines.push(("relies on", format!("{}: {}", short_path(&kept.path), kept.text)));
    }
    let mut text = TextBuffer::default();
    text.line(look.paint(STRONG, &format!("proposal {}", item.id)));
    for (name, value) in lines {
        let name = look.paint(FAINT, &format!("{name:<9}"));
        text.line(format_args!("{name} {}", sanitize::line(&value)));
    }
    if let Some(why) = &item.stale {
        let name = look.paint(WARN, &format!("{:<9}", "stale"));
        text.line(format_args!("{name} {}", sanitize::line(&reason_without_path(why, item))));
        for change in &proposal.changes {
            text.line(format_args!("\n  {}", look.paint(STRONG, &short_path(&change.path))));
            let sides = [("-", &change.old), ("+", &change.new)];
            for (sign, entry) in
                sides.iter().filter_map(|(sign, side)| Some((sign, side.as_ref()?)))
            {
                for line in entry.lines() {
                    text.line(format_args!("  {sign} {}", look.memory_text(line)));
                }
            }
        }
    }
    let diffs = change::diffs(&item.diffs, look);
    if !diffs.is_empty() {
        text.line("");
        text.add(&diffs);
    }
    text.into_string()
}

fn value(item: &PendingProposal) -> Value {
    let proposal = &item.proposal;
    let changes = proposal.changes.iter().map(
        |change| json!({ "path": change.path.to_string(), "old": change.old, "new": change.new }),
    );
    let relies_on = proposal
        .relies_on
        .iter()
        .map(|kept| json!({ "path": kept.path.to_string(), "text": kept.text }));
    let review = proposal.review.as_ref().map(
        |review| json!({ "path": review.path.to_string(), "revision": review.revision.to_string() }),
    );
    json!({
        "id": item.id.0,
        "made_at": time::exact(item.made_at),
        "origin": item.origin,
        "task": item.task,
        "kind": proposal.kind.as_ref(),
        "reason": proposal.reason,
        "score": proposal.score,
        "stale": item.stale,
        "changes": changes.collect::<Vec<_>>(),
        "relies_on": relies_on.collect::<Vec<_>>(),
        "review": review,
        "diffs": change::diff_values(&item.diffs),
    })
}

/// A decision on proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Accept,
    Reject,
}

impl Verb {
    const fn past_tense(self) -> &'static str {
        match self {
            Self::Accept => "accepted",
            Self::Reject => "rejected",
        }
    }
}

async fn decide(app: &App, chosen: &ProposalSelection, verb: Verb) -> Result<Status, Failure> {
    let memories = app.memories();
    let ids = if chosen.all {
        let Some(ids) = confirm_all(app, &memories, chosen, verb).await? else {
            app.output.note("nothing was decided");
            return Ok(Status::Refused);
        };
        ids
    } else {
        chosen.ids.iter().copied().map(ProposalId).collect()
    };
    let (pending, call) = (app.engine.proposal_queue(), call());
    let decisions = match verb {
        Verb::Accept => {
            // Boxed, since the future of an acceptance is too large for the stack of its callers.
            let accepting = Box::pin(pending.accept(&memories, &ids, &call));
            app.finish_write("accepting", accepting).await
        }
        Verb::Reject => app.finish_write("rejecting", pending.reject(&memories, &ids)).await,
    };
    report(app, decisions, verb)
}

/// Returns all waiting proposals, if the user agrees to decide on all of them.
async fn confirm_all(
    app: &App,
    memories: &Memories,
    chosen: &ProposalSelection,
    verb: Verb,
) -> Result<Option<Vec<ProposalId>>, Failure> {
    let (command, does, word) = match verb {
        Verb::Accept => ("pending accept --all", "changes memories", "Accept"),
        Verb::Reject => ("pending reject --all", "cannot be undone", "Reject"),
    };
    ask::require_consent(app, chosen.consent, command, does)?;
    let mut waiting = all(app, memories).await?;
    if verb == Verb::Accept {
        let all = waiting.len();
        waiting.retain(|item| item.stale.is_none());
        let stale = all - waiting.len();
        if stale > 0 {
            let count = counted(stale, "proposal is", "proposals are");
            app.output
                .note(&format!("{count} stale; `lukasa pending reject --all` drops the rest"));
        }
    }
    let ids = waiting.iter().map(|item| item.id).collect();
    if chosen.consent.yes || waiting.is_empty() {
        return Ok(Some(ids));
    }
    let about = columns(&waiting, now(), app.output.note_style);
    let question = format!("{word} {}?", counted(waiting.len(), "proposal", "proposals"));
    Ok(ask::confirm_about(app, &about, &question).await?.then_some(ids))
}

fn report(app: &App, mut decisions: Vec<ProposalDecision>, verb: Verb) -> Result<Status, Failure> {
    if let [ProposalDecision { outcome: Err(_), .. }] = decisions.as_slice()
        && let Some(ProposalDecision { outcome: Err(error), .. }) = decisions.pop()
    {
        return Err(failure(error));
    }
    if app.output.json {
        let values: Vec<_> = decisions.iter().map(decision_value).collect();
        app.output.value(&json!({ "decisions": values }))?;
    } else if decisions.is_empty() {
        app.output.note("no proposals wait");
    }
    let mut refused = 0;
    for ProposalDecision { id, outcome } in decisions {
        match outcome {
            Ok(change) => {
                app.output
                    .note(&with_change(&format!("{} proposal {id}", verb.past_tense()), change));
            }
            Err(error) => {
                refused += 1;
                app.output.warning(&error.to_string());
            }
        }
    }
    Ok(if refused == 0 { Status::Done } else { Status::Refused })
}

fn decision_value(decision: &ProposalDecision) -> Value {
    match &decision.outcome {
        Ok(change) => json!({ "id": decision.id.0, "done": true, "change": change.map(|id| id.0) }),
        Err(error) => json!({
            "id": decision.id.0,
            "done": false,
            "code": error.code().as_ref(),
            "error": error.to_string(),
        }),
    }
}

fn failure(error: DecisionError) -> Failure {
    let (code, what) = (error.code(), error.to_string());
    match error {
        DecisionError::Store(error) => error.into(),
        DecisionError::NotFound(_) => {
            Failure::new(code, what).help("`lukasa pending` lists the waiting proposals")
        }
        DecisionError::Decided { .. } => Failure::new(code, what),
        DecisionError::Stale { id, .. } => Failure::new(code, what)
            .help(format!("`lukasa pending reject {id}` removes it from the list")),
    }
}

/// Returns the number of a proposal, and its kind and memories as a title.
pub(crate) fn number_and_title(item: &PendingProposal) -> (String, String) {
    (item.id.to_string(), format!("{} {}", item.proposal.kind, named(item)))
}

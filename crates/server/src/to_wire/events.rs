//! Conversion of feed events to the envelopes of event streams.

use engine::ContextScope;
use engine::feed::{self, BacklogSize, EventKind, ExceededLimit, FeedChange, ResyncReason};
use memory::proposal::ProposalStatus;
use protocol::event::{
    ClientEviction, Envelope, Event, ManagedSource, MemoryChanged, MemoryReviewed, Meta,
    ProposalAction, ProposalEvent, ReplayComplete, ResyncRequired, SlowClient, Threshold,
};

use super::target_scopes;
use crate::twins::Twin;

/// The wire's reason for a cursor of another epoch, or beyond the newest event.
const EPOCH_RESET: &str = "epoch_reset";

/// Converts an event.
pub(crate) fn event(event: &feed::Event) -> Envelope {
    let originator = match &event.kind {
        EventKind::MemoryChanged(event) => event.originator.as_ref(),
        _ => None,
    };
    Envelope {
        id: event.id,
        v: 1,
        event: kind(&event.kind),
        originator_client_id: originator.map(ToString::to_string),
        meta: Meta { server_timestamp: event.at.as_millisecond() },
    }
}

fn kind(kind: &EventKind) -> Event {
    match kind {
        EventKind::MemoryChanged(event) => changed(&event.change),
        EventKind::ReplayComplete(complete) => Event::ReplayComplete(ReplayComplete {
            replayed_count: complete.replayed,
            last_event_id: complete.last_id,
        }),
        EventKind::StateResyncRequired(resync) => Event::StateResyncRequired(ResyncRequired {
            reason: reason(resync.reason).to_owned(),
            detail: detail(resync.reason).map(str::to_owned),
            last_delivered_id: resync.last_seen,
            earliest_available_id: resync.earliest,
        }),
        EventKind::SlowReader(slow) => Event::SlowClientWarning(SlowClient {
            queue_size: slow.waiting.events,
            max_queued: slow.max.events,
            queued_bytes: slow.waiting.bytes,
            max_queued_bytes: slow.max.bytes,
            threshold: threshold(slow.exceeded),
            last_event_id: slow.last_id,
        }),
        EventKind::Evicted(evicted) => {
            let BacklogSize { events, bytes } = evicted.waiting;
            Event::ClientEvicted(ClientEviction {
                reason: "queue_overflow".to_owned(),
                dropped_after: evicted.last_delivered,
                queue_size: events,
                max_queued: evicted.max.events,
                queued_bytes: bytes,
                max_queued_bytes: evicted.max.bytes,
            })
        }
    }
}

/// Returns the wire's source of a task's changes. The wire has none for reviews, whose changes are published one by
/// one, as those of an agent.
const fn source(kind: engine::TaskKind) -> ManagedSource {
    match kind {
        engine::TaskKind::Remember | engine::TaskKind::Review => ManagedSource::Remember,
        engine::TaskKind::Forget => ManagedSource::Forget,
        engine::TaskKind::Dream => ManagedSource::Dream,
    }
}

fn changed(changed: &FeedChange) -> Event {
    Event::MemoryChanged(match changed {
        FeedChange::Proposals { ids, status, task, change, by } => {
            return Event::Proposal(ProposalEvent {
                action: action(*status),
                ids: ids.iter().map(|id| id.0).collect(),
                actor: by.actor.to_string(),
                task: task.clone(),
                change: change.map(|change| change.0),
            });
        }
        FeedChange::Review { task, saved, scopes } => {
            let memories = if *saved == 1 { "memory" } else { "memories" };
            return Event::MemoryReviewed(MemoryReviewed {
                task_id: task.to_string(),
                saved: super::count(*saved),
                message: format!("Saved {saved} {memories} from your last conversation."),
                touched_scopes: target_scopes(scopes),
            });
        }
        FeedChange::Task { task, kind, scopes } => MemoryChanged::Managed {
            source: source(*kind),
            task_id: task.to_string(),
            touched_scopes: target_scopes(scopes),
        },
        FeedChange::File { path, moved_to, kind, by, trust, revision, change, workspace } => {
            MemoryChanged::File {
                path: path.to_string(),
                moved_to: moved_to.as_ref().map(ToString::to_string),
                kind: kind.to_string(),
                actor: by.actor.to_string(),
                revision: revision.map(|revision| revision.to_string()),
                change: Some(change.0),
                trust: Some(trust.to_string()),
                workspace_id: workspace.as_ref().map(ToString::to_string),
                client: by.client.clone(),
                session: by.session.clone(),
                task: by.task.clone(),
            }
        }
        FeedChange::Pin { path, pinned, by } => MemoryChanged::File {
            path: path.to_string(),
            moved_to: None,
            kind: if *pinned { "pin" } else { "unpin" }.to_owned(),
            actor: by.actor.to_string(),
            revision: None,
            change: None,
            trust: None,
            workspace_id: None,
            client: by.client.clone(),
            session: by.session.clone(),
            task: None,
        },
        FeedChange::ContextFile { scope, path, write, bytes } => {
            let file_path = path.display().to_string();
            let (mode, bytes_written) = (write.twin(), super::count(*bytes));
            match scope {
                ContextScope::Project => {
                    MemoryChanged::Workspace { file_path, mode, bytes_written }
                }
                ContextScope::Global => MemoryChanged::Global { file_path, mode, bytes_written },
            }
        }
    })
}

const fn action(status: ProposalStatus) -> ProposalAction {
    match status {
        ProposalStatus::Waiting => ProposalAction::Made,
        ProposalStatus::Accepted => ProposalAction::Accepted,
        ProposalStatus::Rejected => ProposalAction::Rejected,
    }
}

const fn reason(reason: ResyncReason) -> &'static str {
    match reason {
        ResyncReason::Forgotten => "ring_evicted",
        ResyncReason::CursorAhead | ResyncReason::OtherEpoch => EPOCH_RESET,
        ResyncReason::TooMuch => "replay_truncated",
    }
}

const fn detail(reason: ResyncReason) -> Option<&'static str> {
    match reason {
        ResyncReason::OtherEpoch => Some("epoch_mismatch"),
        ResyncReason::Forgotten | ResyncReason::CursorAhead | ResyncReason::TooMuch => None,
    }
}

const fn threshold(excess: ExceededLimit) -> Threshold {
    match excess {
        ExceededLimit::Events => Threshold::Frames,
        ExceededLimit::Bytes => Threshold::Bytes,
        ExceededLimit::Both => Threshold::Both,
    }
}

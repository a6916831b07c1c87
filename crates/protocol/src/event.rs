//! Events of a stream, as the `data` of server-sent events.
//!
//! An event about memories has an id; the ids of one stream increase. They have gaps if several daemons share a database,
//! whose numbers they all use. An event about the stream itself
//! (caught up, events lost, slow reader) has no id.

use serde::{Deserialize, Serialize};

use crate::context_files::WriteMode;
use crate::task::TargetScope;

/// One event, as the `data` of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The event's number on this stream; none for an event about the stream itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The version of this format: 1.
    pub v: u32,
    /// The type of the event and its data.
    #[serde(flatten)]
    pub event: Event,
    /// The client whose request caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originator_client_id: Option<String>,
    /// Metadata of the event.
    #[serde(rename = "_meta")]
    pub meta: Meta,
}

/// Metadata of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The time of publication, in milliseconds since 1970.
    pub server_timestamp: i64,
}

/// The type of an event, with its data.
#[derive(strum::AsRefStr)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// Memories changed.
    MemoryChanged(MemoryChanged),
    /// Proposals were made or decided.
    Proposal(ProposalEvent),
    /// A background review saved something, and notices about that are switched on.
    MemoryReviewed(MemoryReviewed),
    /// All missed events have been replayed; live events follow.
    ReplayComplete(ReplayComplete),
    /// Events were lost for good: the reader must read the current state again.
    StateResyncRequired(ResyncRequired),
    /// The reader is falling behind.
    SlowClientWarning(SlowClient),
    /// The reader fell too far behind; the stream ends.
    ClientEvicted(ClientEviction),
}

/// Changed memories or context files; `scope` selects the form.
#[expect(
    clippy::large_enum_variant,
    reason = "an event is short-lived, and most have the large form"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "scope", rename_all = "lowercase")]
pub enum MemoryChanged {
    /// A task changed memories; one event for the whole task.
    #[serde(rename_all = "camelCase")]
    Managed {
        /// The kind of task.
        source: ManagedSource,
        /// The id of the task.
        task_id: String,
        /// The scopes of the memories.
        touched_scopes: Vec<TargetScope>,
    },
    /// A tool, a person or an editor changed one memory.
    #[serde(rename_all = "camelCase")]
    File {
        /// The path of the memory.
        path: String,
        /// The new path, if the memory was renamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved_to: Option<String>,
        /// The kind of change: `create`, `edit`, `save`, `delete`, `rename`, `undo`, `import`, `outside`, …; or
        /// `pin` and `unpin`, which are not recorded in history.
        kind: String,
        /// The actor: `person`, `agent`, `review`, `outside`, …
        actor: String,
        /// The new revision; none if the memory was deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// The change in history; none for `pin` and `unpin`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<i64>,
        /// The trust of the text: `person`, `agent`, `background`, `imported`, `outside`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trust: Option<String>,
        /// The workspace of the change, if this daemon serves it; none for global memories. If it differs from the
        /// workspace of the stream, the change was made in another worktree of the same project. The memory at this
        /// path in the workspace of the stream is then unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace_id: Option<String>,
        /// The name of the calling program, as it sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        /// The session of the host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// The task that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
    },
    /// The context file of the project was written through the daemon.
    #[serde(rename_all = "camelCase")]
    Workspace {
        /// The path of the file.
        file_path: String,
        /// The way in which the file was written.
        mode: WriteMode,
        /// The number of bytes that were added, or of the whole new text.
        bytes_written: u64,
    },
    /// The context file of the person was written through the daemon.
    #[serde(rename_all = "camelCase")]
    Global {
        /// The path of the file.
        file_path: String,
        /// The way in which the file was written.
        mode: WriteMode,
        /// The number of bytes that were added, or of the whole new text.
        bytes_written: u64,
    },
}

/// Proposals that were made or decided through this daemon, or through one with the same database. Published on `/v1/events` of each workspace that has all
/// the memories that they name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProposalEvent {
    /// The action on the proposals.
    pub action: ProposalAction,
    /// The numbers of the proposals.
    pub ids: Vec<i64>,
    /// The actor: `task` or `dream` made them, a `person` decided.
    pub actor: String,
    /// The task that made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The change that accepting one made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
}

/// A notice that a background review saved something, once per review. Only sent if `memory_review_verbose` is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryReviewed {
    /// The task id of the review.
    pub task_id: String,
    /// The number of saved entries.
    pub saved: u64,
    /// A line for the person, such as `Saved 2 memories from your last conversation.`
    pub message: String,
    /// The scopes of the saved entries.
    pub touched_scopes: Vec<TargetScope>,
}

/// An action on proposals.
#[derive(strum::Display, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProposalAction {
    /// A task made them; they wait for a decision.
    Made,
    /// A person accepted one.
    Accepted,
    /// A person rejected one.
    Rejected,
}

/// The kind of task that changed memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ManagedSource {
    /// A remember task.
    #[serde(rename = "workspace_memory_remember")]
    Remember,
    /// A forget task.
    #[serde(rename = "workspace_memory_forget")]
    Forget,
    /// A dream.
    #[serde(rename = "workspace_memory_dream")]
    Dream,
}

/// The end of a replay of missed events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReplayComplete {
    /// The number of replayed events.
    pub replayed_count: u64,
    /// The id of the newest event.
    pub last_event_id: u64,
}

/// A loss of events: the reader must read the current state again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResyncRequired {
    /// The reason: `ring_evicted`, `epoch_reset`, `replay_truncated`.
    pub reason: String,
    /// More about the reason, such as `epoch_mismatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The id of the last event that the reader has seen.
    pub last_delivered_id: u64,
    /// The id of the oldest event that is still available.
    pub earliest_available_id: u64,
}

/// A warning that the reader is falling behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SlowClient {
    /// The number of queued frames; the frames of one change count as one.
    pub queue_size: u64,
    /// The limit for queued frames.
    pub max_queued: u64,
    /// The number of queued bytes.
    pub queued_bytes: u64,
    /// The limit for queued bytes.
    pub max_queued_bytes: u64,
    /// The limit that is nearly reached.
    pub threshold: Threshold,
    /// The id of the newest event.
    pub last_event_id: u64,
}

/// The limits of a reader's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// The number of queued frames.
    Frames,
    /// The number of queued bytes.
    Bytes,
    /// Both limits.
    #[serde(rename = "frames_and_bytes")]
    Both,
}

/// The end of a stream whose reader fell too far behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClientEviction {
    /// The reason: `queue_overflow`.
    pub reason: String,
    /// The id of the last event that was delivered.
    pub dropped_after: u64,
    /// The number of queued frames; the frames of one change count as one.
    pub queue_size: u64,
    /// The limit for queued frames.
    pub max_queued: u64,
    /// The number of queued bytes.
    pub queued_bytes: u64,
    /// The limit for queued bytes.
    pub max_queued_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(envelope: &Envelope) -> String {
        let text = serde_json::to_string(envelope).unwrap();
        assert_eq!(&serde_json::from_str::<Envelope>(&text).unwrap(), envelope, "{text}");
        text
    }

    #[test]
    fn a_task_that_changed_memories_is_one_managed_event() {
        let event = Event::MemoryChanged(MemoryChanged::Managed {
            source: ManagedSource::Remember,
            task_id: "remember-1".to_owned(),
            touched_scopes: vec![TargetScope::User],
        });
        let envelope = Envelope {
            id: Some(7),
            v: 1,
            event,
            originator_client_id: Some("ide".to_owned()),
            meta: Meta { server_timestamp: 1 },
        };
        insta::assert_snapshot!(check(&envelope), @r#"{"id":7,"v":1,"type":"memory_changed","data":{"scope":"managed","source":"workspace_memory_remember","taskId":"remember-1","touchedScopes":["user"]},"originatorClientId":"ide","_meta":{"serverTimestamp":1}}"#);
    }

    #[test]
    fn a_changed_file_is_named_by_its_memory_path() {
        let event = Event::MemoryChanged(MemoryChanged::File {
            path: "/memories/global/a.md".to_owned(),
            moved_to: None,
            kind: "outside".to_owned(),
            actor: "outside".to_owned(),
            revision: None,
            change: Some(3),
            trust: Some("outside".to_owned()),
            workspace_id: None,
            client: None,
            session: None,
            task: None,
        });
        let meta = Meta { server_timestamp: 1 };
        let envelope = Envelope { id: Some(1), v: 1, event, originator_client_id: None, meta };
        insta::assert_snapshot!(check(&envelope), @r#"{"id":1,"v":1,"type":"memory_changed","data":{"scope":"file","path":"/memories/global/a.md","kind":"outside","actor":"outside","change":3,"trust":"outside"},"_meta":{"serverTimestamp":1}}"#);
    }

    #[test]
    fn an_accepted_proposal_names_its_change() {
        let event = Event::Proposal(ProposalEvent {
            action: ProposalAction::Accepted,
            ids: vec![3],
            actor: "person".to_owned(),
            task: Some("dream-1".to_owned()),
            change: Some(7),
        });
        let meta = Meta { server_timestamp: 1 };
        let envelope = Envelope { id: Some(1), v: 1, event, originator_client_id: None, meta };
        insta::assert_snapshot!(check(&envelope), @r#"{"id":1,"v":1,"type":"proposal","data":{"action":"accepted","ids":[3],"actor":"person","task":"dream-1","change":7},"_meta":{"serverTimestamp":1}}"#);
    }

    #[test]
    fn a_written_context_file_is_named_by_its_file_path() {
        let event = Event::MemoryChanged(MemoryChanged::Workspace {
            file_path: "/home/user/app/AGENTS.md".to_owned(),
            mode: WriteMode::Append,
            bytes_written: 9,
        });
        let meta = Meta { server_timestamp: 1 };
        let envelope = Envelope { id: Some(1), v: 1, event, originator_client_id: None, meta };
        insta::assert_snapshot!(check(&envelope), @r#"{"id":1,"v":1,"type":"memory_changed","data":{"scope":"workspace","filePath":"/home/user/app/AGENTS.md","mode":"append","bytesWritten":9},"_meta":{"serverTimestamp":1}}"#);
    }

    #[test]
    fn an_event_about_the_stream_has_no_id() {
        let event = Event::StateResyncRequired(ResyncRequired {
            reason: "epoch_reset".to_owned(),
            detail: Some("epoch_mismatch".to_owned()),
            last_delivered_id: 9,
            earliest_available_id: 1,
        });
        let meta = Meta { server_timestamp: 1 };
        let envelope = Envelope { id: None, v: 1, event, originator_client_id: None, meta };
        assert_eq!(envelope.event.as_ref(), "state_resync_required");
        insta::assert_snapshot!(check(&envelope), @r#"{"v":1,"type":"state_resync_required","data":{"reason":"epoch_reset","detail":"epoch_mismatch","lastDeliveredId":9,"earliestAvailableId":1},"_meta":{"serverTimestamp":1}}"#);
    }
}

//! Events: what happened, as streams tell it.
//!
//! An event that happened has an id, and ids count up without gaps on one stream. What a stream says
//! about itself (that it has caught up, that something was lost, that its reader is slow) has none.

use serde::{Deserialize, Serialize};

use crate::context_files::WriteMode;
use crate::task::TargetScope;

/// One event, as the `data` of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Its number on this stream; none for what the stream says about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The version of this form: 1.
    pub v: u32,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// The client that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originator_client_id: Option<String>,
    /// About the event itself.
    #[serde(rename = "_meta")]
    pub meta: Meta,
}

/// About an event itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// When it was published, in milliseconds since 1970.
    pub server_timestamp: i64,
}

/// What happened.
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
    /// A background review saved something, and the person wants to be told.
    MemoryReviewed(MemoryReviewed),
    /// All that was missed has been told; what follows happens now.
    ReplayComplete(ReplayComplete),
    /// Something was missed for good: look anew instead of going on.
    StateResyncRequired(ResyncRequired),
    /// The reader falls behind.
    SlowClientWarning(SlowClient),
    /// The reader fell too far behind; the stream ends.
    ClientEvicted(ClientEviction),
}

/// Which memories changed; `scope` tells the two forms apart.
#[expect(
    clippy::large_enum_variant,
    reason = "an event is read, looked at and dropped; most are of the large form"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "scope", rename_all = "lowercase")]
pub enum MemoryChanged {
    /// A task changed some, once for the whole task.
    #[serde(rename_all = "camelCase")]
    Managed {
        /// Which kind of task.
        source: ManagedSource,
        /// Which task.
        task_id: String,
        /// Where the memories lie.
        touched_scopes: Vec<TargetScope>,
    },
    /// Somebody else changed one: a tool, a person, an editor.
    #[serde(rename_all = "camelCase")]
    File {
        /// The memory.
        path: String,
        /// Where it went, if it was renamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved_to: Option<String>,
        /// What was done: `create`, `edit`, `save`, `delete`, `rename`, `undo`, `import`, `outside`, …; or
        /// `pin` and `unpin`, which are no changes in history.
        kind: String,
        /// Who did it: `person`, `agent`, `review`, `outside`, …
        actor: String,
        /// Its revision afterwards; none when it is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// The change in history; none for `pin` and `unpin`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<i64>,
        /// How far the text may be trusted: `person`, `agent`, `background`, `imported`, `outside`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trust: Option<String>,
        /// The workspace in which it happened, if this daemon serves it; none for global memories, which are
        /// everybody's. Another one than that of the stream: in another worktree of the same project, where
        /// the memory at this path here is as before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace_id: Option<String>,
        /// The program that called, as it named itself.
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
        /// The file.
        file_path: String,
        /// What was done.
        mode: WriteMode,
        /// How many bytes were added, or how many the new text has.
        bytes_written: u64,
    },
    /// The context file of the person was written through the daemon.
    #[serde(rename_all = "camelCase")]
    Global {
        /// The file.
        file_path: String,
        /// What was done.
        mode: WriteMode,
        /// How many bytes were added, or how many the new text has.
        bytes_written: u64,
    },
}

/// Proposals were made or decided, through this daemon. Read on `/v1/events`, and where all memories are that they name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProposalEvent {
    /// What was done.
    pub action: ProposalAction,
    /// The proposals.
    pub ids: Vec<i64>,
    /// Who did it: `task` or `dream` made them, a `person` decided.
    pub actor: String,
    /// The task that made them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The change that accepting one made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
}

/// A background review saved something. Told where `memory_review_verbose` is set, once for the whole review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryReviewed {
    /// The review.
    pub task_id: String,
    /// How many entries it saved.
    pub saved: u64,
    /// A line for the person, such as `Saved 2 memories from your last conversation.`
    pub message: String,
    /// Where they lie.
    pub touched_scopes: Vec<TargetScope>,
}

/// What was done with proposals.
#[derive(strum::Display, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProposalAction {
    /// A task made them: they wait.
    Made,
    /// A person accepted one.
    Accepted,
    /// A person rejected one.
    Rejected,
}

/// Which kind of task changed memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ManagedSource {
    /// A remember.
    #[serde(rename = "workspace_memory_remember")]
    Remember,
    /// A forget.
    #[serde(rename = "workspace_memory_forget")]
    Forget,
    /// A dream.
    #[serde(rename = "workspace_memory_dream")]
    Dream,
}

/// All that was missed has been told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReplayComplete {
    /// How many events that was.
    pub replayed_count: u64,
    /// The id of the newest event.
    pub last_event_id: u64,
}

/// Something was missed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResyncRequired {
    /// Why: `ring_evicted`, `epoch_reset`, `replay_truncated`.
    pub reason: String,
    /// More about the reason, such as `epoch_mismatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What the reader had seen last.
    pub last_delivered_id: u64,
    /// The oldest event that can still be told.
    pub earliest_available_id: u64,
}

/// The reader falls behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SlowClient {
    /// Frames that wait for it; those of one change count as one.
    pub queue_size: u64,
    /// How many may.
    pub max_queued: u64,
    /// Bytes that wait for it.
    pub queued_bytes: u64,
    /// How many may.
    pub max_queued_bytes: u64,
    /// Which of the two it is about.
    pub threshold: Threshold,
    /// The id of the newest event.
    pub last_event_id: u64,
}

/// What a slow reader has too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Threshold {
    /// Frames.
    Frames,
    /// Bytes.
    Bytes,
    /// Both.
    #[serde(rename = "frames_and_bytes")]
    Both,
}

/// The reader fell too far behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClientEviction {
    /// Why: `queue_overflow`.
    pub reason: String,
    /// The id of the last event that it was told.
    pub dropped_after: u64,
    /// Frames that waited; those of one change count as one.
    pub queue_size: u64,
    /// How many may.
    pub max_queued: u64,
    /// Bytes that waited.
    pub queued_bytes: u64,
    /// How many may.
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
    fn a_task_that_changed_memories_is_told_once() {
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
    fn a_file_that_changed_is_named_by_its_memory_path() {
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
    fn a_proposal_that_was_accepted_names_its_change() {
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
    fn a_context_file_that_was_written_is_named_by_where_it_is() {
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
    fn what_a_stream_says_about_itself_has_no_id() {
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

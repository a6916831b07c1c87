//! The caller of a store operation, and the context of one call.
//!
//! This file holds data only. The access rules are in `memory::access`;
//! [`Memories`](crate::Memories) applies them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory::access::AgentClass;
use memory::change::Provenance;
use memory::document::Revision;
use memory::proposal::ProposalId;
use state::{OutsideReaders, StateError};

/// A caller: its agent class, its provenance, and the unreviewed text that its session has read.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The class of agent; a person is always [`AgentClass::Exec`].
    pub class: AgentClass,
    /// Provenance of changes by this caller. The tool call is added for each call.
    pub provenance: Provenance,
    /// Flag: the caller's session has read text that no person on this host reviewed. Clones share it, so a caller
    /// that is cloned for each call is one session.
    pub outside_read: OutsideReadFlag,
}

impl Caller {
    /// Returns a caller of this class at the start of a session.
    pub fn new(class: AgentClass, provenance: Provenance) -> Self {
        Self { class, provenance, outside_read: OutsideReadFlag::default() }
    }

    /// Returns a person who came in through `origin`. A person has access to every scope.
    pub fn person(origin: &str) -> Self {
        Self::new(AgentClass::Exec, Provenance::person(origin))
    }

    /// Returns an agent that came in through `origin`, at the start of a session.
    pub fn agent(class: AgentClass, origin: &str) -> Self {
        Self::new(class, Provenance::agent(origin))
    }
}

/// The context of one call.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// Id of the model's tool call.
    pub tool_call: Option<String>,
    /// Task that the call belongs to.
    pub task: Option<String>,
    /// Attempt at the task that makes the call. A change is refused if another attempt has begun since, or the task
    /// has ended.
    pub attempt: Option<u32>,
    /// Proposal that the change accepts. The change is refused if the proposal no longer waits; otherwise it ends
    /// the wait.
    pub proposal: Option<ProposalId>,
}

/// A condition on the current content of a memory that a write requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The memory must not exist.
    Absent,
    /// The memory must exist, with any content.
    Present,
    /// The memory must have one of these revisions.
    OneOf(Vec<Revision>),
    /// The memory must not exist, or must have none of these revisions.
    NoneOf(Vec<Revision>),
    /// Both conditions hold.
    Both(Box<[Self; 2]>),
}

impl Precondition {
    /// Checks whether the condition holds for the current revision, or for a missing memory (`None`).
    pub fn allows(&self, current: Option<Revision>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::OneOf(revisions) => current.is_some_and(|current| revisions.contains(&current)),
            Self::NoneOf(revisions) => current.is_none_or(|current| !revisions.contains(&current)),
            Self::Both(both) => both.iter().all(|condition| condition.allows(current)),
        }
    }
}

impl From<Revision> for Precondition {
    /// Requires exactly this revision.
    fn from(revision: Revision) -> Self {
        Self::OneOf(vec![revision])
    }
}

/// A flag, shared by all clones: the session has read text that no person on this host reviewed.
///
/// It lives as long as the process, unless several daemons share it. A session that is resumed in another process then
/// starts with the flag unset.
#[derive(Clone, Debug, Default)]
pub struct OutsideReadFlag(Arc<FlagState>);

#[derive(Debug, Default)]
struct FlagState {
    is_set: AtomicBool,
    shared: Option<SharedReader>,
}

/// A reader that all daemons of a database know.
#[derive(Debug)]
struct SharedReader {
    readers: Arc<dyn OutsideReaders>,
    name: Box<str>,
    idle_max: Duration,
}

impl OutsideReadFlag {
    /// Returns a flag that is set.
    pub fn already_set() -> Self {
        Self(Arc::new(FlagState { is_set: AtomicBool::new(true), shared: None }))
    }

    /// Returns the flag of a reader whose requests may reach several daemons. The reader loses it when it was idle for
    /// `idle_max`.
    pub fn shared(readers: Arc<dyn OutsideReaders>, name: &str, idle_max: Duration) -> Self {
        let shared = SharedReader { readers, name: name.into(), idle_max };
        Self(Arc::new(FlagState { is_set: AtomicBool::new(false), shared: Some(shared) }))
    }

    /// Checks whether the flag is set, by any daemon.
    ///
    /// # Errors
    ///
    /// If the database that the daemons share cannot tell. The flag must then be taken for set.
    pub async fn is_set(&self) -> Result<bool, StateError> {
        if let Some(SharedReader { readers, name, idle_max }) = &self.0.shared
            && readers.contains(name, *idle_max).await?
        {
            self.0.is_set.store(true, Ordering::SeqCst);
        }
        Ok(self.is_known_set())
    }

    /// Checks whether this process knows that the flag is set.
    pub fn is_known_set(&self) -> bool {
        self.0.is_set.load(Ordering::SeqCst)
    }

    /// Checks whether both flags belong to the same session.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Sets the flag, for all daemons that share it.
    pub(crate) async fn set(&self) -> Result<(), StateError> {
        if let Some(SharedReader { readers, name, idle_max }) = &self.0.shared {
            readers.add(name, *idle_max).await?;
        }
        self.0.is_set.store(true, Ordering::SeqCst);
        Ok(())
    }
}

//! Who asks the store for something, and what is particular to one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory::access::AgentClass;
use memory::change::Provenance;
use memory::document::Revision;
use memory::proposal::ProposalId;

/// Who asks, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The class of agent; a person is always [`AgentClass::Exec`].
    pub class: AgentClass,
    /// What a change by this caller says about itself; the tool call is added per call.
    pub provenance: Provenance,
    /// What the caller's session has read that nobody here reviewed. Clones share it, so one caller, cloned for each
    /// call, is one session.
    pub outside_read: OutsideReadFlag,
}

impl Caller {
    /// Returns a caller of this class, at the beginning of a session.
    pub fn new(class: AgentClass, provenance: Provenance) -> Self {
        Self { class, provenance, outside_read: OutsideReadFlag::default() }
    }

    /// Returns a person who came in by `origin`; nothing is closed to them.
    pub fn person(origin: &str) -> Self {
        Self::new(AgentClass::Exec, Provenance::person(origin))
    }

    /// Returns an agent that came in by `origin`, at the beginning of a session.
    pub fn agent(class: AgentClass, origin: &str) -> Self {
        Self::new(class, Provenance::agent(origin))
    }
}

/// What is particular to one call.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// The model's tool call id.
    pub tool_call: Option<String>,
    /// The task it belongs to.
    pub task: Option<String>,
    /// Which attempt at that makes it: a change that an attempt makes after another one was begun, or
    /// after the task ended, does not happen.
    pub attempt: Option<u32>,
    /// The proposal that it accepts: a change does not happen unless that one still waits, and ends its wait.
    pub proposal: Option<ProposalId>,
}

/// What a write finds, or else it does not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: the memory must not exist.
    Absent,
    /// Something, whatever it is.
    Present,
    /// Exactly one of these revisions.
    OneOf(Vec<Revision>),
    /// Nothing, or none of these revisions.
    NoneOf(Vec<Revision>),
    /// What both say.
    Both(Box<[Self; 2]>),
}

impl Precondition {
    /// Tells whether what is there is as expected: this revision, or nothing.
    pub fn allows(&self, current: Option<Revision>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::OneOf(these) => current.is_some_and(|current| these.contains(&current)),
            Self::NoneOf(these) => current.is_none_or(|current| !these.contains(&current)),
            Self::Both(both) => both.iter().all(|one| one.allows(current)),
        }
    }
}

impl From<Revision> for Precondition {
    /// Expects exactly this revision.
    fn from(revision: Revision) -> Self {
        Self::OneOf(vec![revision])
    }
}

/// Whether a session has read what nobody here reviewed. Clones share it.
///
/// It lives as long as the process. A session that is resumed in another one begins anew.
#[derive(Clone, Debug, Default)]
pub struct OutsideReadFlag(Arc<AtomicBool>);

impl OutsideReadFlag {
    /// Returns that of a session that has.
    pub fn already_set() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Tells whether it has.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Tells whether both are of one session.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

//! The records of a Quipu home about its memories: pins, usage, and the trust of each text.
//!
//! Only a copy of the database is opened, so that a running Quipu daemon is neither blocked nor migrated. An older
//! schema is migrated in the copy.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::Path;

use memory::change::{ChangeId, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use state::{
    HistoryStore as _, SqliteState, StateError, Status, TaskStore as _, UsageRow, copy_database,
};

#[cfg(test)]
mod tests;

/// Why nothing could be read of a database.
#[derive(Debug, thiserror::Error)]
pub enum UnreadState {
    /// It is no database of Quipu, or not any more.
    #[error("it is damaged")]
    Damaged(#[source] Box<dyn Error + Send + Sync>),
    /// A later program wrote it.
    #[error("it has schema {found}, and this program knows schemas up to {known}; update lukasa")]
    Newer {
        /// Its schema.
        found: i64,
        /// The latest schema of this program.
        known: i64,
    },
    /// A process writes to it again and again.
    #[error("another process keeps writing to it; stop Quipu and import again")]
    Busy,
    /// The copy has no room.
    #[error("there is no room for a copy of it in the folder for temporary files")]
    Full,
    /// It cannot be opened.
    #[error("it cannot be read")]
    Unreadable(#[source] Box<dyn Error + Send + Sync>),
}

impl From<StateError> for UnreadState {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Damaged { source, .. } => Self::Damaged(source),
            StateError::Newer { found, known, .. } => Self::Newer { found, known },
            StateError::Busy { .. } => Self::Busy,
            StateError::Full { .. } => Self::Full,
            StateError::Unavailable { source, .. }
            | StateError::Refused { source, .. }
            | StateError::Unreachable { source, .. }
            | StateError::Failed { source, .. } => Self::Unreadable(source),
        }
    }
}

/// The records about the memories of one scope.
#[derive(Clone, Debug, Default)]
pub struct ScopeRecords {
    marks: Vec<UsageRow>,
    /// The highest trust that each text was recorded with.
    trust: HashMap<Revision, Trust>,
    /// Texts that await a review by a person.
    waiting: HashSet<Revision>,
}

impl ScopeRecords {
    /// Returns the pins and usage.
    pub fn marks(&self) -> &[UsageRow] {
        &self.marks
    }

    /// Returns the trust of a text here, and whether it awaits a review by a person.
    ///
    /// At most [`Trust::Imported`]: an import does not prove that a person wrote the text. A text that came with a
    /// repository, and that was neither written nor accepted in Quipu, stays [`Trust::Outside`].
    pub fn trust(&self, bytes: &[u8], travels_with_repository: bool) -> (Trust, bool) {
        let revision = Revision::digest(bytes);
        let recorded = self.trust.get(&revision).copied();
        if self.waiting.contains(&revision) {
            let is_background = recorded == Some(Trust::Background);
            return (if is_background { Trust::Background } else { Trust::Outside }, true);
        }
        match recorded {
            None | Some(Trust::Outside) if travels_with_repository => (Trust::Outside, false),
            _ => (Trust::Imported, false),
        }
    }
}

/// The records of a Quipu database.
#[derive(Clone, Debug, Default)]
pub struct OldState {
    scopes: HashMap<String, ScopeRecords>,
    /// Number of unfinished tasks.
    pub unfinished_tasks: u64,
}

impl OldState {
    /// Returns the records of a scope by its identity, such as `global`; nothing if it has none.
    pub fn scope(&self, identity: &str) -> ScopeRecords {
        self.scopes.get(identity).cloned().unwrap_or_default()
    }
}

/// Reads the records of these scopes, by their identities, from a copy of the database at `copy`. That path must be in
/// a private folder; the caller removes it.
pub async fn read_state(
    database: &Path,
    copy: &Path,
    identities: &[String],
) -> Result<OldState, UnreadState> {
    copy_database(database, copy).await?;
    migrate(copy).await?;
    // Read-only, so that nothing is repaired: a database that was set aside would look like one without a pin.
    let state = SqliteState::new(copy.to_owned()).read_only();
    let read = read_scopes(&state, identities).await;
    state.close().await;
    Ok(read?)
}

/// Migrates a copy to the current schema.
async fn migrate(copy: &Path) -> Result<(), UnreadState> {
    let looking = SqliteState::new(copy.to_owned()).read_only();
    let looked = looking.stats().await;
    looking.close().await;
    looked?;
    let state = SqliteState::new(copy.to_owned());
    // The smallest write: the first one migrates.
    let migrated = state.raise_change_number(ChangeId::default()).await;
    state.close().await;
    migrated?;
    match state.last_repair() {
        Some(repair) if repair.set_aside.is_some() => {
            Err(UnreadState::Damaged(repair.reason.into()))
        }
        _ => Ok(()),
    }
}

async fn read_scopes(state: &SqliteState, identities: &[String]) -> Result<OldState, StateError> {
    let mut old = OldState::default();
    for identity in identities {
        let records = ScopeRecords {
            marks: state.usage_rows(identity).await?,
            trust: state.recorded_revisions(identity).await?,
            waiting: state.influenced_revisions(identity).await?.into_keys().collect(),
        };
        old.scopes.insert(identity.clone(), records);
    }
    let counts = state.count_tasks(Timestamp::MAX).await?;
    let is_open = |status| matches!(status, Status::Queued | Status::Running);
    old.unfinished_tasks =
        counts.iter().filter(|count| is_open(count.status)).map(|count| count.tasks).sum();
    Ok(old)
}

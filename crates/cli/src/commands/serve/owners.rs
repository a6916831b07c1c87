//! The owners of the tokens in a database: each has an engine of its own, on its rows.

use std::sync::Arc;

use async_trait::async_trait;
use engine::{Engine, LaneSettings, StateError, Storage, Workspace};
use memory::owner::{NewToken, OwnerSize, StoredToken, TokenOptions, TokenRights};
use postgres::{Database, OwnerName, TOKEN_PREFIX};
use server::http::{OpenOwnerError, OpenedOwner, OwnerDirectory, OwnerResources};
use tokio::sync::Semaphore;

use crate::app::{self, SelectedRunner};
use crate::args::Globals;
use crate::exit::Failure;

use super::task_options::TaskOptions;

/// The owners in a database.
#[derive(Debug)]
pub(super) struct DatabaseOwners {
    database: Database,
    globals: Globals,
    tasks: TaskOptions,
    /// Permits for the tasks of all owners.
    process_slots: Arc<Semaphore>,
}

/// The resources of the engine of an owner.
#[derive(Debug)]
struct EngineResources {
    engine: Engine,
    runner: SelectedRunner,
}

#[async_trait]
impl OwnerResources for EngineResources {
    async fn close(&self) {
        self.runner.close().await;
        self.engine.close().await;
    }
}

impl DatabaseOwners {
    pub(super) fn new(database: Database, globals: Globals, tasks: TaskOptions) -> Self {
        let slots = tasks.concurrent_max.map_or(LaneSettings::default().concurrent_max, Into::into);
        let process_slots = Arc::new(Semaphore::new(slots));
        Self { database, globals, tasks, process_slots }
    }

    /// Returns the rows of an owner, as an engine uses them.
    pub(super) async fn storage(&self, owner: &OwnerName) -> Result<Storage, StateError> {
        let rows = Arc::new(self.database.owner(owner.as_str()).await?);
        let (state, locks) = (Arc::clone(&rows) as _, Arc::clone(&rows) as _);
        let process_slots = Some(Arc::clone(&self.process_slots));
        let events = Some(Arc::clone(&rows) as _);
        let outside_readers = Some(Arc::clone(&rows) as _);
        Ok(Storage { state, locks, roots: Some(rows), events, outside_readers, process_slots })
    }

    /// Opens an engine on the rows of an owner, and chooses the process that runs its tasks.
    pub(super) fn engine(
        &self,
        owner: &OwnerName,
        storage: Storage,
    ) -> Result<(Engine, SelectedRunner), Failure> {
        let (engine, runners) = app::open_shared(&self.globals, storage, owner.as_str())?;
        let runner = runners.for_daemon(&engine, self.tasks.runner);
        Ok((engine, runner))
    }
}

#[async_trait]
impl OwnerDirectory for DatabaseOwners {
    async fn rights(&self, token: &str) -> Result<Option<TokenRights>, StateError> {
        if !token.starts_with(TOKEN_PREFIX) {
            return Ok(None);
        }
        self.database.token_rights(token).await
    }

    async fn open(
        &self,
        owner: &str,
        workspaces: &[Workspace],
    ) -> Result<OpenedOwner, OpenOwnerError> {
        let name = OwnerName::existing(owner)
            .map_err(|error| OpenOwnerError::Settings(error.to_string()))?;
        let storage = self.storage(&name).await?;
        let (engine, runner) = self
            .engine(&name, storage)
            .map_err(|failure| OpenOwnerError::Settings(format!("{failure:?}")))?;
        let lanes = self.tasks.lanes(&engine);
        let services = engine.serve_with(Arc::clone(&runner.runner), workspaces, lanes).await?;
        let resources = Box::new(EngineResources { engine: engine.clone(), runner });
        Ok(OpenedOwner { engine, services, resources })
    }

    async fn create_token(
        &self,
        owner: &str,
        options: TokenOptions<'_>,
    ) -> Result<Option<NewToken>, StateError> {
        self.database.create_token(owner, options).await
    }

    async fn tokens(&self, owner: &str) -> Result<Vec<StoredToken>, StateError> {
        self.database.tokens(Some(owner)).await
    }

    async fn revoke_token(&self, owner: &str, id: &str) -> Result<bool, StateError> {
        self.database.revoke_token(Some(owner), id).await
    }

    async fn sizes(&self, owners: &[String]) -> Result<Vec<OwnerSize>, StateError> {
        self.database.owner_sizes(owners).await
    }

    async fn unfinished_lanes(&self) -> Result<Vec<(String, String)>, StateError> {
        let lanes = self.database.unfinished_lanes().await?;
        Ok(lanes.into_iter().map(|lane| (lane.owner, lane.workspace)).collect())
    }
}

//! A process of several on a host: a store whose files and state have a plan of failures of their
//! own.

use std::sync::Arc;

use lukasa_store::backend::Backend;
use lukasa_store::backend::local::{LocalBackend, Privacy, RootDir};
use lukasa_store::{Caller, Memories, Store};
use memory::access::AgentClass;
use memory::change::RootKey;
use memory::path::{Mount, Scope};
use state::SqliteState;
use testkit::{FaultPlan, FaultyBackend, FaultyState};

use crate::host::TestHost;

pub(crate) struct Process {
    pub(crate) store: Arc<Store>,
    pub(crate) agent: Memories,
    pub(crate) plan: Arc<FaultPlan>,
}

impl Process {
    /// Starts a process with the global and the project scope.
    pub(crate) fn start(host: &TestHost) -> Self {
        let plan = Arc::<FaultPlan>::default();
        let sqlite = Arc::new(SqliteState::new(host.path("state/lukasa.db")));
        let store = host.store_on(Arc::new(FaultyState::sharing(sqlite, Arc::clone(&plan))));
        let root = |scope, base: &str, names: &[&str]| {
            let anchor = RootDir::new(host.path(base), names, Privacy::Private);
            let lock = host.path(&format!("state/locks/{scope}.lock"));
            let local = Arc::new(LocalBackend::new(anchor, lock));
            let key = RootKey { identity: format!("{scope}"), place: format!("{scope}") };
            let faulty: Arc<dyn Backend> = Arc::new(FaultyBackend::new(local, Arc::clone(&plan)));
            (Mount::Scope(scope), key, faulty)
        };
        let roots = vec![
            root(Scope::Global, "data", &["memory"]),
            root(Scope::Project, "shop", &[".lukasa", "memory"]),
        ];
        let agent = store.memories_in(roots, Caller::agent(AgentClass::Exec, "test"));
        Self { store, agent, plan }
    }

    /// Returns the same memories for a person.
    pub(crate) fn person(&self) -> Memories {
        self.agent.for_caller(Caller::person("test"))
    }
}

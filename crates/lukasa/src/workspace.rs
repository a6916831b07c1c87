//! Workspaces and callers: the folder that a program works in, and the identity that it works with.
//!
//! A [`Workspace`] selects the scopes, a [`Caller`] the permissions and the names in history. Together they give
//! [`Memories`].

use std::fmt;
use std::path::PathBuf;

use engine::{
    BindingRequest, ProjectFolder, ProjectRoot, Requester, Viewer, WorkspaceChoice, WorkspaceId,
};
use memory::access::AgentClass;
use memory::change::Provenance;

use crate::Result;
use crate::error::ErrorCause;
use crate::memories::Memories;
use crate::open::Lukasa;

/// A folder to work in; it determines the scopes that a caller sees.
///
/// Made by [`Lukasa::workspace`], [`Lukasa::global`] and [`Lukasa::folder`]. Nothing is read before the first call.
///
/// ```
/// # async fn example(lukasa: lukasa::Lukasa) -> Result<(), lukasa::Error> {
/// use lukasa::AgentClass;
///
/// let workspace = lukasa.workspace("/home/me/shop");
/// let person = workspace.as_person("my-app");
/// let planner = workspace.as_agent(AgentClass::Plan, "my-app");
/// person.create("global/style.md", "- Short answers.\n").await?;
/// assert_eq!(planner.read("global/style.md").await?.text, "- Short answers.\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Workspace {
    lukasa: Lukasa,
    binding: BindingRequest,
}

/// A person or an agent that works with memories.
///
/// Its `origin` is the name of your program in the history of every change.
#[derive(Clone, Debug)]
#[must_use]
pub struct Caller {
    class: AgentClass,
    is_person: bool,
    origin: String,
    client: Option<String>,
    session: Option<String>,
}

impl Workspace {
    pub(crate) fn new(lukasa: &Lukasa, binding: BindingRequest) -> Self {
        Self { lukasa: lukasa.clone(), binding }
    }

    /// Uses the workspace with this id for the scope `workspace`, instead of that of the checkout. An id has 1 to 64
    /// letters, digits, `.`, `_` or `-`, and does not begin with a dot. `NAME@PROJECT` also replaces the project by one
    /// of this name, whose memories lie beside the global ones.
    pub fn with_id(mut self, id: &str) -> Result<Self> {
        let id: WorkspaceId = id.parse().map_err(ErrorCause::WorkspaceId)?;
        self.binding.workspace = WorkspaceChoice::Id(id);
        Ok(self)
    }

    /// Stores the project's memories in the home instead of the checkout, so that they do not travel with the
    /// repository.
    pub fn project_on_host(mut self) -> Self {
        self.binding.project_root = ProjectRoot::Host;
        self
    }

    /// Restricts all callers to reading.
    pub fn read_only(mut self) -> Self {
        self.binding.read_only = true;
        self
    }

    /// Returns the memories with the access of a person: all of them.
    pub fn as_person(&self, origin: &str) -> Memories {
        self.as_caller(Caller::person(origin))
    }

    /// Returns the memories with the access of an agent of this class, at the beginning of a session.
    pub fn as_agent(&self, class: AgentClass, origin: &str) -> Memories {
        self.as_caller(Caller::agent(class, origin))
    }

    /// Returns the memories with the access of this caller, at the beginning of a session.
    pub fn as_caller(&self, caller: Caller) -> Memories {
        let workspace = engine::Workspace::from_binding(self.binding.clone());
        Memories::new(&self.lukasa, workspace, caller)
    }

    /// Trusts the project permanently, as `lukasa trust` does. From then on, models follow its context files and are
    /// shown memories that came with a clone. Ask the person first.
    pub async fn trust(&self) -> Result<()> {
        let _call = self.lukasa.0.begin()?;
        let trusted = self.lukasa.engine().trusted_folders();
        match &self.binding.project {
            Some(ProjectFolder::Remote(folder)) => drop(trusted.add_remote(folder).await?),
            _ => drop(trusted.add(&self.project()?).await?),
        }
        Ok(())
    }

    /// Revokes the trust in the project. A trusted folder above it still counts.
    pub async fn distrust(&self) -> Result<()> {
        let _call = self.lukasa.0.begin()?;
        let trusted = self.lukasa.engine().trusted_folders();
        match &self.binding.project {
            Some(ProjectFolder::Remote(folder)) => drop(trusted.remove_remote(folder).await?),
            _ => drop(trusted.remove(&self.project()?).await?),
        }
        Ok(())
    }

    fn project(&self) -> Result<PathBuf> {
        let folder = self.binding.local_project().ok_or(ErrorCause::NoProject)?;
        let checkout = engine::Checkout::find(folder);
        Ok(checkout.map_or_else(|| folder.to_owned(), |checkout| checkout.root))
    }
}

impl Caller {
    /// Returns a person who uses the program `origin`.
    pub fn person(origin: &str) -> Self {
        Self::new(AgentClass::Exec, true, origin)
    }

    /// Returns an agent of this class in the program `origin`.
    pub fn agent(class: AgentClass, origin: &str) -> Self {
        Self::new(class, false, origin)
    }

    fn new(class: AgentClass, is_person: bool, origin: &str) -> Self {
        Self { class, is_person, origin: origin.to_owned(), client: None, session: None }
    }

    /// Sets the client's name in history, such as `claude-code 2.1`.
    pub fn client(mut self, client: &str) -> Self {
        self.client = Some(client.to_owned());
        self
    }

    /// Sets the session's name in history; changes can be searched by it.
    pub fn session(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }

    pub(crate) const fn class(&self) -> AgentClass {
        self.class
    }

    /// Returns the author of changes to memories.
    pub(crate) fn to_store(&self) -> engine::Caller {
        let Self { class, is_person, origin, client, session } = self;
        let provenance =
            if *is_person { Provenance::person(origin) } else { Provenance::agent(origin) };
        let provenance =
            Provenance { client: client.clone(), session: session.clone(), ..provenance };
        engine::Caller::new(*class, provenance)
    }

    /// Returns the requester of tasks.
    pub(crate) fn requester(&self) -> Requester {
        if self.is_person {
            Requester::person(&self.origin)
        } else {
            Requester::client(&self.origin, None)
        }
    }

    /// Returns the viewer of tasks.
    pub(crate) const fn viewer(&self) -> Viewer<'static> {
        if self.is_person { Viewer::Person } else { Viewer::Client(None) }
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("binding", &self.binding).finish_non_exhaustive()
    }
}

//! Where a program works, and who it works for.

use std::fmt;
use std::path::PathBuf;

use engine::{BindingRequest, ProjectRoot, Requester, Viewer, WorkspaceChoice, WorkspaceId};
use memory::access::AgentClass;
use memory::change::Provenance;

use crate::Result;
use crate::error::ErrorCause;
use crate::memories::Memories;
use crate::open::Lukasa;

/// A place of work: it decides which scopes a caller sees.
///
/// Made by [`Lukasa::workspace`], [`Lukasa::global`] and [`Lukasa::folder`]. Nothing is read before a caller
/// asks for something.
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

/// Someone who works with memories: a person, or an agent of a class.
///
/// Its `origin` names your program in the history of every change.
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

    /// Uses the workspace of this id for the scope `workspace`, instead of the one of the checkout. An id is
    /// 1 to 64 letters, digits, `.`, `_` or `-`, and does not begin with a dot.
    pub fn with_id(mut self, id: &str) -> Result<Self> {
        let id: WorkspaceId = id.parse().map_err(ErrorCause::WorkspaceId)?;
        self.binding.workspace = WorkspaceChoice::Id(id);
        Ok(self)
    }

    /// Keeps the project's memories in the home instead of the checkout, so that they do not travel with the
    /// repository.
    pub fn project_on_host(mut self) -> Self {
        self.binding.project_root = ProjectRoot::Host;
        self
    }

    /// Lets callers only read, whoever they are.
    pub fn read_only(mut self) -> Self {
        self.binding.read_only = true;
        self
    }

    /// Returns the memories as a person may touch them: all of them.
    pub fn as_person(&self, origin: &str) -> Memories {
        self.as_caller(Caller::person(origin))
    }

    /// Returns the memories as an agent of this class may touch them, at the beginning of a session.
    pub fn as_agent(&self, class: AgentClass, origin: &str) -> Memories {
        self.as_caller(Caller::agent(class, origin))
    }

    /// Returns the memories as this caller may touch them, at the beginning of a session.
    pub fn as_caller(&self, caller: Caller) -> Memories {
        let workspace = engine::Workspace::from_binding(self.binding.clone());
        Memories::new(&self.lukasa, workspace, caller)
    }

    /// Trusts the project for good, as `lukasa trust` does: its context files instruct models from then on,
    /// and memories that came with a clone are shown to them. Ask the person first.
    pub async fn trust(&self) -> Result<()> {
        let _call = self.lukasa.0.begin()?;
        self.lukasa.engine().trusted_folders().add(&self.project()?).await?;
        Ok(())
    }

    /// Trusts the project no longer. A trusted folder above it still counts.
    pub async fn distrust(&self) -> Result<()> {
        let _call = self.lukasa.0.begin()?;
        self.lukasa.engine().trusted_folders().remove(&self.project()?).await?;
        Ok(())
    }

    fn project(&self) -> Result<PathBuf> {
        let folder = self.binding.project_dir.clone().ok_or(ErrorCause::NoProject)?;
        Ok(engine::Checkout::find(&folder).map_or(folder, |checkout| checkout.root))
    }
}

impl Caller {
    /// Returns a person who uses the program called `origin`.
    pub fn person(origin: &str) -> Self {
        Self::new(AgentClass::Exec, true, origin)
    }

    /// Returns an agent of this class in the program called `origin`.
    pub fn agent(class: AgentClass, origin: &str) -> Self {
        Self::new(class, false, origin)
    }

    fn new(class: AgentClass, is_person: bool, origin: &str) -> Self {
        Self { class, is_person, origin: origin.to_owned(), client: None, session: None }
    }

    /// Names the client in the history, such as `claude-code 2.1`.
    pub fn client(mut self, client: &str) -> Self {
        self.client = Some(client.to_owned());
        self
    }

    /// Names the session in the history; changes of one session can be found by it.
    pub fn session(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }

    pub(crate) const fn class(&self) -> AgentClass {
        self.class
    }

    /// Returns who changes memories.
    pub(crate) fn to_store(&self) -> engine::Caller {
        let Self { class, is_person, origin, client, session } = self;
        let provenance =
            if *is_person { Provenance::person(origin) } else { Provenance::agent(origin) };
        let provenance =
            Provenance { client: client.clone(), session: session.clone(), ..provenance };
        engine::Caller::new(*class, provenance)
    }

    /// Returns who asks for tasks.
    pub(crate) fn requester(&self) -> Requester {
        if self.is_person {
            Requester::person(&self.origin)
        } else {
            Requester::client(&self.origin, None)
        }
    }

    /// Returns who looks at tasks.
    pub(crate) const fn viewer(&self) -> Viewer<'static> {
        if self.is_person { Viewer::Person } else { Viewer::Client(None) }
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("binding", &self.binding).finish_non_exhaustive()
    }
}

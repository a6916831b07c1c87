//! Opening a home and closing it again.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{BaseFolders, BindingRequest, Config, Engine, RunningServices};
use memory::clock::Clock;
use memory::limits::DRAIN_WAIT;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::Result;
use crate::error::ErrorCause;
use crate::workspace::Workspace;

/// A home of memories, opened. Cheap to clone; all clones share caches, the task queue and the state.
///
/// A home is one folder: `memory/` holds the global memories as Markdown files, `state/` the history, the
/// queue of tasks, pins, use, and the memories of workspaces. Any number of processes may open the same
/// home at once, the program `lukasa` with `LUKASA_HOME` among them.
///
/// ```
/// # async fn example(home: std::path::PathBuf) -> Result<(), lukasa::Error> {
/// use lukasa::Lukasa;
///
/// let lukasa = Lukasa::open(home).await?;
/// let memories = lukasa.workspace(".").as_person("my-app");
/// memories.create("global/tea.md", "- Darjeeling, no milk\n").await?;
/// lukasa.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lukasa(pub(crate) Arc<LukasaInner>);

/// What all handles of one home share.
pub(crate) struct LukasaInner {
    pub(crate) engine: Engine,
    pub(crate) services: RunningServices,
    /// Counts the calls under way, and refuses new ones once it is closed.
    calls: TaskTracker,
    /// Cancelled when tasks are drained: who waits for one waits in vain.
    pub(crate) draining: CancellationToken,
}

/// The settings of a home before it is opened, made by [`Lukasa::builder`].
///
/// ```
/// # async fn example() -> Result<(), lukasa::Error> {
/// use lukasa::Lukasa;
///
/// let lukasa = Lukasa::builder("/srv/app/memory")
///     .state("/var/lib/app/lukasa")
///     .files_max(200)
///     .open()
///     .await?;
/// # lukasa.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    config: Config,
}

impl Builder {
    /// Keeps the state in another folder than `state/` of the home.
    pub fn state(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.folders.state = folder.into();
        self
    }

    /// Sets the clock that dates changes, tasks, events and use. The default is the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.config.clock = clock;
        self
    }

    /// Sets how many memories a scope may hold. More than the library allows counts as what it allows.
    pub fn files_max(mut self, files: usize) -> Self {
        self.config.files_max = files;
        self
    }

    /// Reviews conversations in the background, each time after so many turns of a person. The default is
    /// never; 0 is never too. See [`Conversation::turn_ended`](crate::Conversation::turn_ended).
    pub fn review_every(mut self, turns: u64) -> Self {
        self.config.review.interval = turns;
        self
    }

    /// Changes any other setting: models, embeddings, features, screening, history. See
    /// [`Config`](crate::layers::engine::Config).
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Opens the home. Makes the folder of the state if it is not there; nothing else is made before it is
    /// needed.
    pub async fn open(self) -> Result<Lukasa> {
        self.config.folders.create_state_folder();
        let engine = Engine::open(self.config)?;
        let serving = engine.serve(&[], engine.lane_settings()).await?;
        Ok(Lukasa(Arc::new(LukasaInner {
            engine,
            services: serving,
            calls: TaskTracker::new(),
            draining: CancellationToken::new(),
        })))
    }
}

impl Lukasa {
    /// Opens the home in this folder with default settings. The folder need not exist.
    ///
    /// Needs a tokio runtime with time enabled, of either flavor; what goes on in the background goes on
    /// there.
    pub async fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        Self::builder(folder).open().await
    }

    /// Returns the settings of the home in this folder, to be changed before it is opened.
    pub fn builder(folder: impl Into<PathBuf>) -> Builder {
        let data = folder.into();
        Builder { config: Config::new(BaseFolders { state: data.join("state"), data }) }
    }

    /// Returns the workspace that a program works in: the git checkout that `folder` lies in, with the
    /// scopes `global`, `project` and `workspace`. Outside of a checkout only `global` is available.
    pub fn workspace(&self, folder: impl AsRef<Path>) -> Workspace {
        // Where no current folder exists, the path is as good as it can be.
        let absolute = std::path::absolute(folder.as_ref());
        let folder = absolute.unwrap_or_else(|_| folder.as_ref().to_owned());
        Workspace::new(
            self,
            BindingRequest {
                project_dir: Some(folder),
                workspace: engine::WorkspaceChoice::Checkout,
                ..BindingRequest::default()
            },
        )
    }

    /// Returns the workspace without a project: the scope `global` alone.
    pub fn global(&self) -> Workspace {
        Workspace::new(self, BindingRequest::default())
    }

    /// Returns one folder of Markdown files as a workspace, without scopes: its paths have no `global/` or
    /// `project/` before them.
    pub fn folder(&self, folder: impl Into<PathBuf>) -> Workspace {
        Workspace::new(
            self,
            BindingRequest { flat: Some(folder.into()), ..BindingRequest::default() },
        )
    }

    /// Returns the library underneath, for what this one does not offer. It changes more often.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Closes the home: takes no more calls, waits for those under way, gives running tasks ten seconds to
    /// end, synchronizes files and closes the state.
    ///
    /// Tasks that are not done stay queued and go on with the next start. Afterwards, every call on every
    /// clone and handle fails with [`ErrorKind::Closed`](crate::ErrorKind::Closed). A process that ends, or
    /// a program that drops its handles, without closing loses nothing that was acknowledged: the next
    /// writer completes what was recorded.
    pub async fn close(self) {
        let LukasaInner { engine, services: serving, calls, draining: drained } = &*self.0;
        calls.close();
        calls.wait().await;
        serving.lanes.drain(DRAIN_WAIT).await;
        drained.cancel();
        serving.feeds.close_all();
        serving.conversations.flush().await;
        engine.close().await;
    }
}

impl LukasaInner {
    /// Begins a call, which closing waits for until the token is dropped.
    pub(crate) fn begin(&self) -> Result<TaskTrackerToken> {
        // Counted first: closing looks at the count after it has refused.
        let token = self.calls.token();
        if self.calls.is_closed() { Err(ErrorCause::Closed.into()) } else { Ok(token) }
    }
}

impl fmt::Debug for Lukasa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lukasa").field("state", &self.0.engine.state_file()).finish_non_exhaustive()
    }
}

/// Runs a future to its end on a runtime of its own, for programs that have none.
///
/// # Panics
///
/// Panics if it is called within a runtime: await the future there.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime without threads and I/O needs nothing of the system").block_on(future)
}

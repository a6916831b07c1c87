//! Opening and closing a home.
//!
//! [`Builder`] collects the settings, [`Lukasa`] is the opened home. Closing counts the running calls, waits for them,
//! and refuses later ones.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{BaseFolders, BindingRequest, Config, Engine, RemoteFolder, RunningServices};
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
/// A home is one folder. `memory/` has the global memories as Markdown files. `state/` has the history, the task queue,
/// pins, usage and the memories of workspaces. Any number of processes may open the same home, the program `lukasa`
/// with `LUKASA_HOME` included.
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

/// The state that all handles of one home share.
pub(crate) struct LukasaInner {
    pub(crate) engine: Engine,
    pub(crate) services: RunningServices,
    /// Counts running calls, and refuses new ones once it is closed.
    calls: TaskTracker,
    /// Cancelled after tasks are drained, so that calls that wait for a task return.
    pub(crate) draining: CancellationToken,
}

/// The settings of a home that is not open yet, made by [`Lukasa::builder`].
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
    /// Sets the folder of the state. The default is `state/` in the home.
    pub fn state(mut self, folder: impl Into<PathBuf>) -> Self {
        self.config.folders.state = folder.into();
        self
    }

    /// Sets the clock for changes, tasks, events and usage. The default is the system clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.config.clock = clock;
        self
    }

    /// Sets the maximum number of memories in a scope. Values above the library's limit are lowered to it.
    pub fn files_max(mut self, files: usize) -> Self {
        self.config.files_max = files;
        self
    }

    /// Reviews conversations in the background, once after every `turns` turns of a person. The default is 0, which
    /// means never. See [`Conversation::turn_ended`](crate::Conversation::turn_ended).
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

    /// Opens the home. Creates the folder of the state if it does not exist; anything else is created when it is
    /// needed.
    pub async fn open(self) -> Result<Lukasa> {
        self.config.folders.create_state_folder();
        let engine = Engine::open(self.config)?;
        let services = engine.serve(&[], engine.lane_settings()).await?;
        Ok(Lukasa(Arc::new(LukasaInner {
            engine,
            services,
            calls: TaskTracker::new(),
            draining: CancellationToken::new(),
        })))
    }
}

impl Lukasa {
    /// Opens the home in this folder with default settings. The folder need not exist.
    ///
    /// Needs a tokio runtime with time enabled, of either flavor. Background work runs in it.
    pub async fn open(folder: impl Into<PathBuf>) -> Result<Self> {
        Self::builder(folder).open().await
    }

    /// Returns the settings of the home in this folder, to be changed before opening it.
    pub fn builder(folder: impl Into<PathBuf>) -> Builder {
        let data = folder.into();
        Builder { config: Config::new(BaseFolders { state: data.join("state"), data }) }
    }

    /// Returns the workspace of the git checkout that contains `folder`, with the scopes `global`, `project` and
    /// `workspace`. Outside of a checkout only `global` is available.
    pub fn workspace(&self, folder: impl AsRef<Path>) -> Workspace {
        // Without a current folder, the path stays relative.
        let absolute = std::path::absolute(folder.as_ref());
        let folder = absolute.unwrap_or_else(|_| folder.as_ref().to_owned());
        Workspace::new(
            self,
            BindingRequest {
                project: Some(folder.into()),
                workspace: engine::WorkspaceChoice::Checkout,
                ..BindingRequest::default()
            },
        )
    }

    /// Returns the workspace of the git checkout on another machine that contains `folder`. Memories of the scopes `global`
    /// and `workspace` stay on this machine.
    ///
    /// Connects with the first call, by the system's `ssh`, for which the runtime needs I/O enabled. While the machine is
    /// out of reach, the project's memories are unavailable and the others work.
    pub fn remote_workspace(&self, folder: RemoteFolder) -> Workspace {
        Workspace::new(
            self,
            BindingRequest {
                project: Some(folder.into()),
                workspace: engine::WorkspaceChoice::Checkout,
                ..BindingRequest::default()
            },
        )
    }

    /// Returns the workspace without a project: only the scope `global`.
    pub fn global(&self) -> Workspace {
        Workspace::new(self, BindingRequest::default())
    }

    /// Returns one folder of Markdown files as a workspace without scopes: its paths do not begin with `global/` or
    /// `project/`.
    pub fn folder(&self, folder: impl Into<PathBuf>) -> Workspace {
        Workspace::new(
            self,
            BindingRequest { flat: Some(folder.into()), ..BindingRequest::default() },
        )
    }

    /// Returns the library underneath, for what this crate does not offer. Its API is less stable.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Closes the home: refuses new calls, waits for running ones, gives running tasks ten seconds to end, synchronizes
    /// files and closes the state.
    ///
    /// Unfinished tasks stay queued and continue after the next opening. Afterwards, every call on every clone and
    /// handle fails with [`ErrorKind::Closed`](crate::ErrorKind::Closed). A process that ends without closing loses
    /// nothing that was acknowledged: the next writer completes the recorded changes.
    pub async fn close(self) {
        let LukasaInner { engine, services, calls, draining } = &*self.0;
        calls.close();
        calls.wait().await;
        services.lanes.drain(DRAIN_WAIT).await;
        draining.cancel();
        services.feeds.close_all();
        services.conversations.flush().await;
        engine.close().await;
    }
}

impl LukasaInner {
    /// Counts a call until the token is dropped; closing waits for it.
    pub(crate) fn begin(&self) -> Result<TaskTrackerToken> {
        // Counted before the check: closing refuses new calls first, and then waits for the count.
        let token = self.calls.token();
        if self.calls.is_closed() { Err(ErrorCause::Closed.into()) } else { Ok(token) }
    }
}

impl fmt::Debug for Lukasa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lukasa").field("state", &self.0.engine.state_file()).finish_non_exhaustive()
    }
}

/// Runs a future to completion on a new runtime, for programs that have none.
///
/// # Panics
///
/// Panics if called within a runtime: await the future there instead.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime without threads needs few system resources").block_on(future)
}

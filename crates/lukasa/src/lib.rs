//! A memory for AI agents, as a library.
//!
//! Memories are Markdown files that people read and edit with any editor. Your program, or an agent in it, reads and
//! writes them through [`Memories`]. Every change is recorded before it is acknowledged, and can be undone. Texts that
//! contain a secret or an instruction aimed at a model are refused. No model, network, daemon or account is needed.
//!
//! ```
//! use lukasa::{ErrorKind, Lukasa};
//!
//! fn main() -> Result<(), lukasa::Error> {
//!     lukasa::block_on(async {
//!         # let folder = tempfile::tempdir().unwrap();
//!         # let home = folder.path();
//!         let lukasa = Lukasa::open(home).await?;
//!         let memories = lukasa.workspace(".").as_person("my-app");
//!
//!         memories.create("global/tea.md", "- Darjeeling, no milk\n").await?;
//!         // A refusal is an error and changes nothing.
//!         let refused = memories.create("global/tea.md", "- Assam\n").await.unwrap_err();
//!         assert_eq!((refused.kind(), refused.code()), (ErrorKind::Conflict, "already_exists"));
//!
//!         memories.remember("I prefer tabs over spaces").await?;
//!         let recall = memories.recall("tabs or spaces?").await?;
//!         assert!(recall.block.contains("I prefer tabs over spaces"));
//!
//!         lukasa.close().await;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! [`block_on`] is for programs without a runtime; in an `async fn` on tokio, leave it out.
//!
//! # Homes, workspaces, callers
//!
//! A [`Lukasa`] is one home: a folder with memories and their state. A [`Workspace`] selects the folder that a caller
//! works in, and a [`Caller`] says who calls. Both together give [`Memories`].
//!
//! | scope | path | stored | visible to |
//! |---|---|---|---|
//! | global | `global/…` | in the home | this person, in all projects |
//! | project | `project/…` | in `.lukasa/memory` of the git checkout | all who clone the repository |
//! | workspace | `workspace/…` | in the home | this checkout, or the workspace with an [id](Workspace::with_id) |
//!
//! An agent has a class. [`Exec`](AgentClass::Exec) may write everywhere, [`Plan`](AgentClass::Plan) everywhere but in
//! the project, and [`Explore`](AgentClass::Explore) may only read.
//!
//! ```
//! # lukasa::block_on(async {
//! # let folder = tempfile::tempdir().unwrap();
//! # let lukasa = lukasa::Lukasa::open(folder.path().join("home")).await?;
//! use lukasa::{AgentClass, ErrorKind};
//!
//! let user = lukasa.global().with_id("user-7")?;
//! user.as_person("my-app").create("workspace/name.md", "- Ada\n").await?;
//!
//! let explorer = user.as_agent(AgentClass::Explore, "my-app");
//! assert_eq!(explorer.read("workspace/name.md").await?.text, "- Ada\n");
//! let refused = explorer.delete("workspace/name.md").await.unwrap_err();
//! assert_eq!(refused.kind(), ErrorKind::Denied);
//! # lukasa.close().await;
//! # Ok::<(), lukasa::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Memories
//!
//! Agents have six commands: [`create`](Memories::create), [`edit`](Memories::edit), [`insert`](Memories::insert),
//! [`delete`](Memories::delete), [`rename`](Memories::rename) and [`view`](Memories::view). Programs that save whole
//! texts use [`read`](Memories::read) and [`replace`](Memories::replace), which never overwrites a change of another
//! writer. The [history](Memories::history) contains every change, edits with an editor included.
//! [`diff`](Memories::diff) shows one and [`undo`](Memories::undo) reverts it.
//!
//! ```
//! # lukasa::block_on(async {
//! # let folder = tempfile::tempdir().unwrap();
//! # let lukasa = lukasa::Lukasa::open(folder.path()).await?;
//! # let memories = lukasa.global().as_person("my-app");
//! memories.create("global/tea.md", "# Tea\n\n- Darjeeling\n").await?;
//! let receipt = memories.edit("global/tea.md", "Darjeeling", "Assam").await?;
//!
//! let change = receipt.change.unwrap();
//! assert!(memories.diff(change).await?[0].unified.contains("-- Darjeeling\n+- Assam"));
//! memories.undo(change).await?;
//! assert!(memories.read("global/tea.md").await?.text.contains("Darjeeling"));
//! # lukasa.close().await;
//! # Ok::<(), lukasa::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Tasks
//!
//! [`remember`](Memories::remember), [`forget`](Memories::forget) and [`dream`](Memories::dream) find the right
//! memories by themselves: by rules, or with the models that [`Builder::configure`] sets. A task is queued durably. The
//! tasks of a workspace run one after the other, in any process that has the home open, and each is undone as a whole.
//! Await the request to wait for the end, or [start](TaskRequest::start) it and poll or cancel the [`Task`]. A change
//! that a task is not sure of becomes a [`Proposal`] for a person to decide.
//!
//! ```
//! # lukasa::block_on(async {
//! # let folder = tempfile::tempdir().unwrap();
//! # let lukasa = lukasa::Lukasa::open(folder.path()).await?;
//! # let memories = lukasa.global().as_person("my-app");
//! use lukasa::TaskStatus;
//!
//! let task = memories.remember("I work at night").start().await?;
//! let report = task.wait().await?;
//! assert!(matches!(task.status().await?, TaskStatus::Completed(_)));
//!
//! memories.undo_task(&report.id).await?;
//! assert!(memories.list().await?.memories.is_empty());
//! # lukasa.close().await;
//! # Ok::<(), lukasa::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Recall, context, conversations
//!
//! [`recall`](Memories::recall) finds the few memories that fit a prompt, or none if none fits.
//! [`context`](Memories::context) returns the text that a model's session begins with. A [`Conversation`] does both for
//! an agent that talks with a model. It never delays a turn: recall runs in the background, and each result is returned
//! once.
//!
//! ```
//! # lukasa::block_on(async {
//! # let folder = tempfile::tempdir().unwrap();
//! # let lukasa = lukasa::Lukasa::open(folder.path()).await?;
//! # let memories = lukasa.global().as_person("my-app");
//! memories.create("global/build.md", "- The build needs pnpm; npm breaks the lock file.\n").await?;
//! assert!(memories.context().await?.text.contains("global/build.md"));
//!
//! let recall = memories.recall("how do I build this?").await?;
//! assert_eq!(recall.hits[0].path.to_string(), "/memories/global/build.md");
//! # lukasa.close().await;
//! # Ok::<(), lukasa::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Events
//!
//! [`Memories::events`] reports every change, whether this program, another process or an editor made it.
//!
//! ```
//! # lukasa::block_on(async {
//! # let folder = tempfile::tempdir().unwrap();
//! # let lukasa = lukasa::Lukasa::open(folder.path()).await?;
//! # let memories = lukasa.global().as_person("my-app");
//! use lukasa::Event;
//!
//! let mut events = memories.events().await?;
//! memories.create("global/tea.md", "- Darjeeling\n").await?;
//! let Some(Event::Changed { path, .. }) = events.next().await else { panic!() };
//! assert_eq!(path.to_string(), "/memories/global/tea.md");
//! # lukasa.close().await;
//! # Ok::<(), lukasa::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Errors
//!
//! Every call that can be refused or fail returns a [`Result`](std::result::Result) with one [`Error`]. Its
//! [`kind`](Error::kind) says what to do: correct the call, read again, ask a person, make room, retry later. Its
//! [`code`](Error::code) is a stable word, listed in the project's `docs/reference/codes.md` and
//! `docs/reference/http.md`. One code is this crate's own: `closed`, for a home that was closed.
//!
//! A failed call changes nothing, with one exception: a machine fault during a write may leave a change that is already
//! recorded. Recovery completes that change; it is not lost.
//!
//! # Limits
//!
//! A memory has at most 102,400 bytes of UTF-8 text, a scope 1,000 memories unless [set otherwise](Builder::files_max),
//! a remembered text 65,536 bytes. The number of unfinished tasks in a workspace is limited; more are refused with
//! [`Busy`](ErrorKind::Busy). All limits are in the project's `docs/reference/limits.md`.
//!
//! # Threads and runtimes
//!
//! Every type here is `Send` and `Sync` and cheap to clone. Calls need a tokio runtime with time enabled, of either
//! flavor; files are read and written on its blocking threads. On a multi-thread runtime, the rules of a task run on a
//! thread of their own. On a current-thread runtime they run on that thread, a few milliseconds at a time. Background
//! work (tasks, events, maintenance) runs in the runtime that opened the home, as long as a [`Lukasa`] or a value made
//! from it exists.
//!
//! # Processes
//!
//! Any number of processes may open the same home: locks order their writes, and each process sees the changes of the
//! others. The program `lukasa` uses the same home if `LUKASA_HOME` is set to its folder.
//!
//! # Shutdown
//!
//! [`Lukasa::close`] waits for running calls, gives running tasks ten seconds, and closes the state. Without it,
//! nothing acknowledged is lost: a write is durable when its call returns, a task when it is
//! [started](TaskRequest::start). Counts, such as uses of the last half second, may be lost.
//!
//! # More
//!
//! [`layers`] has the libraries underneath, for what this crate does not offer: models, imports, health checks, host
//! workspaces. They may change with every version.

mod error;

mod open;

mod workspace;

mod memories;

mod history;

mod task;

mod conversation;

mod event;

/// The examples in the documents. They must compile, and run where they can.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    mod readme {}

    #[doc = include_str!("../../../docs/EMBEDDING.md")]
    mod embedding {}
}

pub use conversation::{Conversation, Turn};
pub use engine::{FileDiff, InvalidRemoteFolder, RemoteFolder, TaskId};
pub use error::{Error, ErrorKind};
pub use event::{Event, MemoryEvents};
pub use history::{Change, Proposal, Undo};
pub use memories::{
    IntoMemoryPath, ListedMemory, Listing, Memories, Memory, ModelContext, Recall, RecallHit,
    Receipt,
};
pub use memory::access::AgentClass;
pub use memory::change::{Actor, ChangeId, ChangeKind};
pub use memory::clock::{Clock, Timestamp};
pub use memory::document::Revision;
pub use memory::path::{MemoryPath, Scope};
pub use memory::proposal::ProposalId;
pub use open::{Builder, Lukasa, block_on};
pub use task::{Task, TaskReport, TaskRequest, TaskStatus};
pub use workspace::{Caller, Workspace};

/// The libraries underneath, for what this crate does not offer. They may change with every version.
pub mod layers {
    pub use ::{engine, memory};
}

type Result<T> = std::result::Result<T, Error>;

//! The far side: serves the project folders of this machine to one client, over standard streams.
//!
//! Calls that read run at the same time. The steps of a write run in the order in which they arrive, so that the client
//! can send several without waiting for each. A call that reads runs after the steps that arrived before it.
//!
//! At the end of the input the steps that arrived are completed. Then staged bytes are discarded and locks released, as
//! at the end of a local process.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use memory::change::DatabaseId;
use memory::document::Revision;
use memory::limits::WATCH_RESCAN;
use memory::path::RelativePath;
use memory::screen::Screen;
use notify::RecursiveMode;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, BufWriter};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::wire::context::{ContextRequest, WireContext};
use super::wire::{
    self, ALIVE_EVERY, Bounded, Call, Failure, FromFar, LIST_CHANGES_MAX, MARK, Operation,
    PROTOCOL, REPORTED_NAMES_MAX, Reply, SENT_FILE_BYTES_MAX, SENT_FILES_MAX, ToFar, WriteStep,
    parse_path,
};
use crate::backend::local::{LocalBackend, Observer};
use crate::backend::{
    Backend, BackendError, Extent, FileList, Freshness, IsReferenced, ListVersion, RootLock,
    Staged, Stamp,
};
use crate::binding::{BaseFolders, Checkout, RootFiles, project_root_spec};
use crate::caller::Caller;
use crate::context_files::load::{LoadLimits, relative_path};
use crate::context_files::{ContextCache, ContextFiles, ContextSettings};
use crate::watch::FolderWatcher;
use crate::{host_fs, os};

/// Maximum number of reading calls that run at the same time.
const READS_AT_ONCE: usize = 32;

/// Number of messages that wait for a slow client.
const REPLIES_BUFFERED: usize = 64;

/// Serves calls until the input ends. `folders` are those of the person here, and a folder `~` is `home`.
///
/// # Errors
///
/// If the input breaks the protocol, or the output cannot be written.
pub async fn serve(
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin,
    folders: &BaseFolders,
    home: &Path,
) -> io::Result<()> {
    let (replies, queue) = mpsc::channel(REPLIES_BUFFERED);
    let (left, client_left) = watch::channel(false);
    let mut far_side = FarSide {
        folders: folders.clone(),
        home: home.to_owned(),
        observer: Arc::default(),
        context_cache: Arc::default(),
        replies,
        questions: Arc::default(),
        roots: HashMap::new(),
        reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
        failed: Arc::default(),
        calls: JoinSet::new(),
        writers: JoinSet::new(),
    };
    let reading = async move {
        let read = far_side.read_calls(input).await;
        // Nothing waits for a client that reads no longer.
        left.send_replace(true);
        far_side.finish().await;
        read
    };
    let (read, written) = tokio::join!(reading, write_replies(output, queue, client_left));
    read.and(written)
}

/// Writes messages until the client leaves, or a write step fails for good.
async fn write_replies(
    output: impl AsyncWrite + Send + Unpin,
    queue: mpsc::Receiver<FromFar>,
    mut client_left: watch::Receiver<bool>,
) -> io::Result<()> {
    tokio::select! {
        written = write_messages(output, queue) => written,
        _ = client_left.wait_for(|left| *left) => Ok(()),
    }
}

async fn write_messages(
    output: impl AsyncWrite + Send + Unpin,
    mut queue: mpsc::Receiver<FromFar>,
) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    output.write_all(MARK).await?;
    loop {
        let message = match tokio::time::timeout(ALIVE_EVERY, queue.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(_elapsed) => FromFar::Alive,
        };
        let frame = wire::frame(&message).or_else(|_| match message {
            // A result that fits no frame.
            FromFar::Reply { number, .. } => {
                wire::frame(&FromFar::Reply { number, result: Err(Failure::Malformed) })
            }
            FromFar::Hello { .. }
            | FromFar::Alive
            | FromFar::Changed { .. }
            | FromFar::Question { .. } => Err(wire::Malformed),
        });
        let frame = frame.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        output.write_all(&frame).await?;
        if queue.is_empty() {
            output.flush().await?;
        }
    }
    output.shutdown().await
}

/// All that serves one client.
struct FarSide {
    folders: BaseFolders,
    home: PathBuf,
    observer: Arc<Observer>,
    context_cache: Arc<ContextCache>,
    replies: mpsc::Sender<FromFar>,
    questions: Arc<Questions>,
    roots: HashMap<u32, ServedRoot>,
    reads: Arc<Semaphore>,
    /// Whether a lock file could not be written. The connection ends then, because the client takes its marks for written.
    failed: Arc<AtomicBool>,
    /// Calls without an order. They end with the input.
    calls: JoinSet<()>,
    /// The writers of the roots. They complete what arrived.
    writers: JoinSet<()>,
}

/// A root that the client opened.
struct ServedRoot {
    backend: LocalBackend,
    steps: mpsc::UnboundedSender<Step>,
    /// Number of write steps that arrived, and that were carried out.
    arrived: u64,
    done: watch::Receiver<u64>,
    /// Whether its changes are watched already, if the client asked for that.
    following: Option<watch::Receiver<bool>>,
}

/// A step for the writer of a root.
enum Step {
    Call(u64, WriteStep),
    /// A lock that was acquired, with its number.
    Locked(u64, Box<dyn RootLock>),
}

impl FarSide {
    async fn read_calls(&mut self, input: impl AsyncRead + Send + Unpin) -> io::Result<()> {
        let hello =
            FromFar::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() };
        send(&self.replies, hello).await;
        let mut input = BufReader::new(wire::patient(input));
        while let Some(message) = wire::read_frame(&mut input).await? {
            while self.calls.try_join_next().is_some() {}
            match message {
                ToFar::Alive => {}
                ToFar::Answer { question, yes } => self.questions.answer(question, yes),
                ToFar::Call { number, call } => self.start(number, call).await,
            }
            if self.failed.load(Ordering::SeqCst) {
                break;
            }
        }
        Ok(())
    }

    /// Completes the steps that arrived, and releases all locks.
    async fn finish(mut self) {
        self.questions.close();
        self.calls.shutdown().await;
        self.roots.clear();
        while self.writers.join_next().await.is_some() {}
    }

    async fn start(&mut self, number: u64, Call { root, operation }: Call) {
        let replies = self.replies.clone();
        if let Operation::Open { folder } = operation {
            let result = self.open(root, folder).await;
            return send(&replies, FromFar::Reply { number, result }).await;
        }
        if let Operation::LoadContext(request) = operation {
            return self.start_context_load(number, request);
        }
        let Some(served) = self.roots.get_mut(&root) else {
            return send(&replies, FromFar::Reply { number, result: Err(Failure::Malformed) })
                .await;
        };
        let backend = served.backend.clone();
        match operation {
            Operation::Write(step) => {
                served.arrived += 1;
                // The writer ends only with the root.
                drop(served.steps.send(Step::Call(number, step)));
            }
            Operation::Lock { database, wait_millis } => {
                let (steps, wait) = (served.steps.clone(), Duration::from_millis(wait_millis));
                self.calls.spawn(async move {
                    let database = DatabaseId(database);
                    let acquired = if wait.is_zero() {
                        let free = backend.try_lock(database).await;
                        free.and_then(|lock| lock.ok_or(BackendError::Locked(wait)))
                    } else {
                        backend.lock(database, wait).await
                    };
                    let result = match acquired {
                        Ok(lock) => {
                            let reply = locked(&*lock);
                            drop(steps.send(Step::Locked(number, lock)));
                            Ok(reply)
                        }
                        Err(error) => Err(error.into()),
                    };
                    send(&replies, FromFar::Reply { number, result }).await;
                });
            }
            Operation::Follow => {
                if served.following.is_none() {
                    let (started, following) = watch::channel(false);
                    served.following = Some(following);
                    let locks = self.folders.locks_folder();
                    self.calls.spawn(Follower::follow(
                        root,
                        backend,
                        locks,
                        (started, replies.clone()),
                    ));
                }
                send(&replies, FromFar::Reply { number, result: Ok(Reply::Done) }).await;
            }
            operation => {
                let (reads, arrived) = (Arc::clone(&self.reads), served.arrived);
                let mut done = served.done.clone();
                let following = served.following.clone();
                self.calls.spawn(async move {
                    // A change after this answer is reported.
                    if let Some(mut following) = following {
                        drop(following.wait_for(|started| *started).await);
                    }
                    // The writer, and the semaphore, end only with the input.
                    drop(done.wait_for(|done| *done >= arrived).await);
                    let _permit = reads.acquire_owned().await;
                    let result = read(&backend, operation).await;
                    send(&replies, FromFar::Reply { number, result }).await;
                });
            }
        }
    }

    fn start_context_load(&mut self, number: u64, request: ContextRequest) {
        let (folders, home) = (self.folders.clone(), self.home.clone());
        let (cache, reads) = (Arc::clone(&self.context_cache), Arc::clone(&self.reads));
        let replies = self.replies.clone();
        self.calls.spawn(async move {
            let _permit = reads.acquire_owned().await;
            let load = move || load_context(request, folders, &home, cache);
            let result = tokio::task::spawn_blocking(load).await;
            let result = result.unwrap_or(Err(Failure::Io(None)));
            send(&replies, FromFar::Reply { number, result }).await;
        });
    }

    async fn open(&mut self, root: u32, folder: Vec<u8>) -> Result<Reply, Failure> {
        let folder = folder_at(folder, &self.home).ok_or(Failure::NoCheckout)?;
        let (folders, observer) = (self.folders.clone(), Arc::clone(&self.observer));
        let opened = tokio::task::spawn_blocking(move || {
            let spec = project_root_spec(&folder, &folders)?;
            let RootFiles::Local(root_dir) = spec.files else { return None };
            let place = place(&root_dir.path());
            let lock = folders.lock_path(&spec.key.place);
            Some((LocalBackend::with_observer(root_dir, lock, observer), place))
        });
        let opened = opened.await.map_err(|_| Failure::Io(None))?;
        let (backend, place) = opened.ok_or(Failure::NoCheckout)?;
        let (steps, queue) = mpsc::unbounded_channel();
        let (done_sender, done) = watch::channel(0);
        let writer = Writer {
            backend: backend.clone(),
            replies: self.replies.clone(),
            questions: Arc::clone(&self.questions),
            locks: HashMap::new(),
            staged: HashMap::new(),
            failed: None,
            connection_failed: Arc::clone(&self.failed),
            done: done_sender,
        };
        self.writers.spawn(writer.run(queue));
        self.roots.insert(root, ServedRoot { backend, steps, arrived: 0, done, following: None });
        Ok(Reply::Opened { place })
    }
}

/// Returns a limit that a client named, bounded by that of this side.
fn at_most(number: u64, most: usize) -> usize {
    usize::try_from(number).map_or(most, |number| number.min(most))
}

/// Returns the folder that a client named, with the home folder for `~`; `None` for a relative path.
fn folder_at(named: Vec<u8>, home: &Path) -> Option<PathBuf> {
    let named = os::path_from_bytes(named);
    let folder = named.strip_prefix("~").map_or(named.clone(), |below| home.join(below));
    folder.is_absolute().then_some(folder)
}

/// Returns the real path of a trusted folder. Links above a checkout are those of a person. In a checkout a pull may
/// replace a folder by a link to any other one, so there none is followed.
fn trusted_folder(folder: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::from("/");
    for name in folder.components().skip(1) {
        let next = host_fs::real_path(&real.join(name)).ok()?;
        if next != real.join(name) && Checkout::find(&real).is_some() {
            return None;
        }
        real = next;
    }
    // As here, the folder of everything cannot be trusted.
    real.parent().is_some().then_some(real)
}

/// Loads the context files of a project. Blocks on the disk.
fn load_context(
    request: ContextRequest,
    folders: BaseFolders,
    home: &Path,
    cache: Arc<ContextCache>,
) -> Result<Reply, Failure> {
    let cwd = folder_at(request.folder, home).and_then(|folder| host_fs::real_path(&folder).ok());
    let cwd = cwd.ok_or(Failure::NoCheckout)?;
    let spec = project_root_spec(&cwd, &folders).ok_or(Failure::NoCheckout)?;
    let RootFiles::Local(root_dir) = spec.files else { return Err(Failure::NoCheckout) };
    let names = request.names.iter().map(|name| RelativePath::parse(name));
    let is_name = |name: &String| !name.contains('/') && !["", ".", ".."].contains(&name.as_str());
    let project_folders = request.project_folders.into_iter();
    let settings = ContextSettings {
        names: names.collect::<Result<_, _>>().map_err(|_| Failure::Malformed)?,
        project_folders: project_folders.filter(is_name).collect(),
        home: Some(home.to_owned()),
        ..ContextSettings::new(home.to_owned())
    };
    let trusted = request.trusted.into_iter();
    let trusted: Vec<_> =
        trusted.filter_map(|folder| trusted_folder(&folder_at(folder, home)?)).collect();
    let host_loaded: Vec<_> = request.host_loaded.iter().map(String::as_str).collect();
    let caller = Caller::person("remote");
    let files =
        ContextFiles::new(folders, Arc::new(settings), Screen::default(), cwd.clone(), caller)
            .with_cache(cache)
            .without_host_loaded(&host_loaded);
    let limits = LoadLimits {
        files: at_most(request.files_max, LoadLimits::ALL.files),
        bytes: at_most(request.bytes_max, LoadLimits::ALL.bytes),
    };
    let shown = |path: &Path| {
        let path = if path.is_absolute() { relative_path(&cwd, path) } else { path.to_owned() };
        path.to_string_lossy().into_owned()
    };
    let files = WireContext::new(files.load_project(&trusted, limits), shown);
    let files = files.map_err(|_| Failure::Malformed)?;
    Ok(Reply::Context { place: place(&root_dir.path()), files })
}

/// Sends a message. Once the client is gone, no message matters.
async fn send(replies: &mpsc::Sender<FromFar>, message: FromFar) {
    drop(replies.send(message).await);
}

fn locked(lock: &dyn RootLock) -> Reply {
    Reply::Locked {
        generation: lock.generation(),
        interrupted: lock.was_interrupted(),
        restarted: lock.machine_restarted(),
        completed: lock.completed().map(|change| change.0),
    }
}

/// Returns a digest that identifies this machine; empty if it has no identity.
fn machine() -> String {
    let id =
        ["/etc/machine-id", "/var/lib/dbus/machine-id"].iter().find_map(host_fs::read_small_file);
    // The identity itself is meant to stay on the machine.
    id.map_or_else(String::new, |id| {
        Revision::digest(format!("lukasa remote {}", id.trim()).as_bytes()).to_string()
    })
}

/// Returns a digest that identifies a root on this machine.
fn place(root: &Path) -> String {
    let mut identity = machine().into_bytes();
    identity.push(0);
    identity.extend_from_slice(root.as_os_str().as_encoded_bytes());
    Revision::digest(&identity).to_string()
}

async fn read(backend: &LocalBackend, operation: Operation) -> Result<Reply, Failure> {
    let malformed = |_| Failure::Malformed;
    let paths = |texts: Vec<String>| -> Result<Vec<RelativePath>, Failure> {
        texts.iter().map(|text| parse_path(text).map_err(malformed)).collect()
    };
    Ok(match operation {
        Operation::Walk { from, max, levels } => {
            let from = from.as_deref().map(parse_path).transpose().map_err(malformed)?;
            let max = at_most(max, Extent::ALL.max);
            let extent = Extent { max, levels: at_most(levels, Extent::ALL.levels) };
            Reply::Walk(backend.walk(from.as_ref(), extent).await?.into())
        }
        Operation::List { walked, known } => {
            let freshness = if walked { Freshness::Walked } else { Freshness::Observed };
            list_reply(&*backend.list(freshness).await?, known)
        }
        Operation::Count => Reply::Count(wire::number(backend.count().await?)),
        Operation::Kind(path) => {
            let path = parse_path(&path).map_err(malformed)?;
            Reply::Kind(backend.kind(&path).await?.map(Into::into))
        }
        Operation::Read { paths: texts, max } => {
            let max = at_most(max, SENT_FILE_BYTES_MAX);
            if texts.len() > SENT_FILES_MAX {
                return Err(Failure::Malformed);
            }
            let reads = backend.read_many(&paths(texts)?, max).await;
            let read = |read: Result<_, BackendError>| read.map(Into::into).map_err(Into::into);
            Reply::Read(Bounded(reads.into_iter().map(read).collect()))
        }
        Operation::LastWrite => Reply::LastWrite(backend.last_write().await.into()),
        Operation::WriteCount => Reply::WriteCount(backend.write_count(Freshness::Observed).await),
        Operation::Exists => Reply::Exists(backend.exists().await?),
        Operation::Holder => Reply::Holder(backend.holder().await),
        Operation::Open { .. }
        | Operation::Follow
        | Operation::LoadContext(_)
        | Operation::Lock { .. }
        | Operation::Write(_) => return Err(Failure::Malformed),
    })
}

/// Reports the changes of a root to the client.
struct Follower {
    root: u32,
    backend: LocalBackend,
    locks: PathBuf,
    watcher: FolderWatcher,
    woken: mpsc::Receiver<()>,
}

/// Time after an event before the root is looked at, so that one notice covers a burst of events.
const NOTICE_SETTLE: Duration = Duration::from_millis(20);

impl Follower {
    /// Watches a root and its lock, and reports changes. Notes when it has started: each later change is reported.
    async fn follow(
        root: u32,
        backend: LocalBackend,
        locks: PathBuf,
        (started, replies): (watch::Sender<bool>, mpsc::Sender<FromFar>),
    ) {
        let follower = Self::start(root, backend, locks).await;
        started.send_replace(true);
        follower.run(replies).await;
    }

    async fn start(root: u32, backend: LocalBackend, locks: PathBuf) -> Self {
        let (mut watcher, woken) = FolderWatcher::start();
        watcher.watch(&locks, RecursiveMode::NonRecursive);
        watcher.watch_root(&backend).await;
        // The second list of a process is the first one that the next can equal.
        drop(backend.list(Freshness::Observed).await);
        Self { root, backend, locks, watcher, woken }
    }

    async fn run(mut self, replies: mpsc::Sender<FromFar>) {
        let mut reported = None;
        loop {
            // While no list can be read, there is none that the client could know.
            let list = self.backend.list(Freshness::Observed).await;
            let list = list.map_or(0, |list| list.version.number());
            let writes = self.backend.write_count(Freshness::Observed).await;
            if reported.replace((list, writes)) != Some((list, writes)) {
                send(&replies, FromFar::Changed { root: self.root, list, writes }).await;
            }
            // The timeout finds new roots and lost events.
            if matches!(tokio::time::timeout(WATCH_RESCAN, self.woken.recv()).await, Ok(None)) {
                return;
            }
            tokio::time::sleep(NOTICE_SETTLE).await;
            while self.woken.try_recv().is_ok() {}
            // Both may be created later.
            self.watcher.watch(&self.locks, RecursiveMode::NonRecursive);
            self.watcher.watch_root(&self.backend).await;
        }
    }
}

/// Returns a list, as changes of the known one if possible.
fn list_reply(list: &FileList, known: Option<u64>) -> Reply {
    let number = list.version.number();
    let known = known.map(ListVersion::from_number);
    if known == Some(list.version) {
        return Reply::SameList;
    }
    let is_whole = list.files.len() == list.files_total && !list.incomplete;
    let changed = known.filter(|_| is_whole).and_then(|known| list.changed_since(known));
    if let Some(changed) = changed.filter(|changed| changed.len() <= LIST_CHANGES_MAX) {
        let stat = |path: &RelativePath| list.file(path).map(|file| file.stat.into());
        let with_stat = changed.into_iter().map(|path| (path.as_str().to_owned(), stat(path)));
        return Reply::ListChanges { number, changes: Bounded(with_stat.collect()) };
    }
    Reply::List {
        number,
        files: Bounded(wire::wire_files(&list.files)),
        files_total: wire::number(list.files_total),
        incomplete: list.incomplete,
    }
}

/// The writer of a root, which carries out its steps one after the other.
struct Writer {
    backend: LocalBackend,
    replies: mpsc::Sender<FromFar>,
    questions: Arc<Questions>,
    locks: HashMap<u64, Box<dyn RootLock>>,
    staged: HashMap<u64, Result<Box<dyn Staged>, Failure>>,
    /// The failure to mark the start or the end of a write. Nothing is written after it.
    failed: Option<Failure>,
    connection_failed: Arc<AtomicBool>,
    /// Number of steps that were carried out.
    done: watch::Sender<u64>,
}

impl Writer {
    async fn run(mut self, mut steps: mpsc::UnboundedReceiver<Step>) {
        while let Some(step) = steps.recv().await {
            match step {
                Step::Locked(number, lock) => drop(self.locks.insert(number, lock)),
                Step::Call(number, step) => {
                    let result = self.step(number, step).await;
                    self.done.send_modify(|done| *done += 1);
                    send(&self.replies, FromFar::Reply { number, result }).await;
                }
            }
        }
    }

    async fn step(&mut self, number: u64, step: WriteStep) -> Result<Reply, Failure> {
        match step {
            WriteStep::Discard { staged } => drop(self.staged.remove(&staged)),
            WriteStep::Begin { lock } => {
                let lock = self.locks.get_mut(&lock).ok_or(Failure::Malformed)?;
                let begun = lock.begin().await;
                self.set_failed(begun);
            }
            WriteStep::End { lock, completed } => {
                let lock = self.locks.get_mut(&lock).ok_or(Failure::Malformed)?;
                if self.failed.is_none() {
                    let ended = lock.end(wire::completed(completed)).await;
                    self.set_failed(ended);
                }
            }
            WriteStep::Unlock { lock } => {
                drop(self.locks.remove(&lock));
            }
            step => match &self.failed {
                Some(failure) => return Err(failure.clone()),
                None => return self.write(number, step).await,
            },
        }
        Ok(Reply::Done)
    }

    /// Notes a failed mark, which ends the connection.
    fn set_failed(&mut self, marked: Result<(), BackendError>) {
        if let Err(error) = marked {
            self.failed = Some(error.into());
            self.connection_failed.store(true, Ordering::SeqCst);
        }
    }

    async fn write(&mut self, number: u64, step: WriteStep) -> Result<Reply, Failure> {
        let path = |text: &str| parse_path(text).map_err(|_| Failure::Malformed);
        match step {
            WriteStep::Stage { path: text, bytes } => {
                let staged = self.backend.stage(&path(&text)?, bytes.into()).await;
                self.staged.insert(number, staged.map_err(Failure::from));
            }
            WriteStep::Publish { staged, modified, expect } => {
                let mut staged = self.staged.remove(&staged).ok_or(Failure::Malformed)??;
                if let Some(modified) = modified {
                    let at = wire::timestamp(modified).map_err(|_| Failure::Malformed)?;
                    staged.set_modified(at);
                }
                staged.publish(wire::expect(expect)).await?;
            }
            WriteStep::RemoveFile { path: text, expect } => {
                self.backend.remove_file(&path(&text)?, Stamp(expect)).await?;
            }
            WriteStep::RemoveFolder { path: text, expect } => {
                let expect = expect.iter().map(|(text, stamp)| Ok((path(text)?, Stamp(*stamp))));
                let expect: Vec<_> = expect.collect::<Result<_, Failure>>()?;
                self.backend.remove_folder(&path(&text)?, &expect).await?;
            }
            WriteStep::RemoveEmpty(text) => self.backend.remove_empty(&path(&text)?).await?,
            WriteStep::Rename { from, to } => {
                self.backend.rename(&path(&from)?, &path(&to)?).await?;
            }
            WriteStep::Sync(texts) => {
                let paths: Vec<_> =
                    texts.iter().map(|text| path(text)).collect::<Result<_, _>>()?;
                self.backend.sync(&paths).await?;
            }
            WriteStep::Sweep => {
                let in_history = Questions::predicate(&self.questions, number, &self.replies);
                let report = self.backend.sweep(in_history).await?;
                let removed = wire::number(report.removed);
                let restored = report.restored.into_iter().take(REPORTED_NAMES_MAX).collect();
                return Ok(Reply::Swept { removed, restored: Bounded(restored) });
            }
            WriteStep::Discard { .. }
            | WriteStep::Begin { .. }
            | WriteStep::End { .. }
            | WriteStep::Unlock { .. } => return Err(Failure::Malformed),
        }
        Ok(Reply::Done)
    }
}

/// The questions of sweeps that the client has not answered yet.
#[derive(Debug, Default)]
struct Questions {
    next: AtomicU64,
    state: Mutex<QuestionState>,
}

#[derive(Debug, Default)]
struct QuestionState {
    open: HashMap<u64, oneshot::Sender<bool>>,
    /// Set at the end of the input.
    is_closed: bool,
}

impl Questions {
    /// Returns a predicate that asks the client. Without an answer nothing is known. It blocks its thread.
    fn predicate(
        this: &Arc<Self>,
        call: u64,
        replies: &mpsc::Sender<FromFar>,
    ) -> Arc<IsReferenced> {
        let (questions, replies) = (Arc::clone(this), replies.clone());
        Arc::new(move |path: &RelativePath, bytes: &[u8]| {
            if bytes.len() > SENT_FILE_BYTES_MAX {
                return Some(false);
            }
            let question = questions.next.fetch_add(1, Ordering::Relaxed);
            let answer = questions.ask(question)?;
            let (path, bytes) = (path.as_str().to_owned(), bytes.to_vec());
            let message = FromFar::Question { number: call, question, path, bytes };
            replies.blocking_send(message).ok()?;
            answer.blocking_recv().ok()
        })
    }

    fn ask(&self, question: u64) -> Option<oneshot::Receiver<bool>> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        state.open.insert(question, sender);
        Some(answer)
    }

    fn answer(&self, question: u64, yes: bool) {
        let asked = self.state.lock().open.remove(&question);
        if let Some(asked) = asked {
            // The asking thread may have ended.
            asked.send(yes).unwrap_or_default();
        }
    }

    fn close(&self) {
        *self.state.lock() = QuestionState { open: HashMap::new(), is_closed: true };
    }
}

//! The backend for a folder on another machine, whose files a Lukasa program there reads and writes.
//!
//! Both sides exchange calls over a pair of streams, such as those of `ssh`. The far side ([`serve`]) uses the local
//! backend. So containment, locks and the swap of files are those of a local folder. A process on that machine can use the
//! same root at the same time.
//!
//! A wire is slow, so this side waits for few replies: a write waits for its lock and for its last file. A connection is
//! opened with the first call, and again after it was lost. While a lock is held, all calls use its connection: after a
//! loss, nothing may be written without the lock.

mod context;
mod far_side;
mod known;
mod link;
mod place;
mod session;
mod ssh;
mod wire;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use memory::change::{ChangeId, DatabaseId};
use memory::clock::Timestamp;
use memory::path::RelativePath;
use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use self::context::RemoteContext;
pub use self::far_side::serve;
use self::known::{KnownKind, KnownList, KnownRoot, KnownWrites};
pub use self::link::{Connect, ConnectError, Link};
pub(crate) use self::place::KnownPlace;
pub use self::session::Streams;
use self::session::{HeldLock, RemoteSession};
pub(crate) use self::ssh::SshConnect;
pub use self::ssh::{SshSettings, ssh_failure};
use self::wire::{Operation, Reply, SENT_FILE_BYTES_MAX, SENT_FILES_MAX, WriteStep, path_texts};
use super::{
    Backend, BackendError, Expect, Extent, FileKind, FileList, FileRead, Freshness, IsReferenced,
    LastWrite, READ_CALLS_AT_ONCE, RootLock, Staged, Stamp, SweepReport, Walk,
};

/// Maximum number of changes of a list before a new one is requested.
const KNOWN_CHANGES_MAX: usize = 16_384;

/// Maximum number of bytes that one call reads from all its files.
const SENT_TOTAL_BYTES_MAX: usize = 32 << 20;

/// The memories of a checkout on another machine.
#[derive(Debug)]
pub struct RemoteBackend {
    link: Arc<Link>,
    /// The folder in the checkout, as the far side names it.
    folder: Vec<u8>,
    place: KnownPlace,
    opened: tokio::sync::Mutex<Option<OpenedRoot>>,
    /// The lock that this process holds, and its connection.
    locked: Arc<Mutex<Option<(u64, Target)>>>,
    known: Arc<KnownRoot>,
}

/// The root on the last connection.
#[derive(Debug)]
struct OpenedRoot {
    target: Target,
    /// Its identity, until it was compared with the kept one.
    unchecked: Option<String>,
}

/// A root on a connection.
#[derive(Clone, Debug)]
struct Target {
    session: Arc<RemoteSession>,
    root: u32,
}

impl Target {
    /// Returns a number of writes for the caches of this process. Marks that were sent on an earlier connection may have
    /// been lost, so numbers of two connections are never equal.
    fn generation(&self, far_side: u64) -> u64 {
        self.session.number.wrapping_mul(SESSION_STEP).wrapping_add(far_side)
    }

    /// Carries out a step of a write and waits for its reply. What is known of the root may be outdated then.
    async fn write(
        &self,
        known: &KnownRoot,
        step: WriteStep,
        in_history: Option<Arc<IsReferenced>>,
    ) -> Result<Reply, BackendError> {
        known.written();
        let reply = self.session.call_with(self.root, Operation::Write(step), in_history).await;
        // Another task may have asked before the step was sent.
        known.written();
        Ok(reply?.0)
    }
}

/// The distance between the generations of two connections: large and odd, so that no count of writes bridges it.
const SESSION_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl RemoteBackend {
    /// Returns a backend for the checkout that contains `folder`. Connects with the first call.
    ///
    /// The identity of the folder is kept in `identity_file`. A folder with another identity is refused later, because
    /// the recorded history is of the first one.
    pub fn new(link: Arc<Link>, folder: Vec<u8>, identity_file: PathBuf) -> Self {
        Self {
            link,
            folder,
            place: KnownPlace::new(identity_file),
            opened: tokio::sync::Mutex::default(),
            locked: Arc::default(),
            known: Arc::new(KnownRoot::new()),
        }
    }

    /// Returns the root on a live connection.
    async fn target(&self) -> Result<Target, BackendError> {
        // While the root is locked, a new connection would be without the lock.
        if let Some((_, target)) = self.locked.lock().clone() {
            return Ok(target);
        }
        let mut opened = self.opened.lock().await;
        let session = self.link.session().await?;
        let number = session.number;
        if opened.as_ref().is_none_or(|opened| opened.target.session.number != number) {
            let root = session.new_root();
            let folder = self.folder.clone();
            let reply = session.call(root, Operation::Open { folder }).await?;
            let Reply::Opened { place } = reply else { return Err(wire::Malformed.into()) };
            *opened = Some(OpenedRoot { target: Target { session, root }, unchecked: Some(place) });
        }
        let opened = opened.as_mut().expect("the root was opened");
        if let Some(place) = &opened.unchecked {
            // A refused identity may be the known one once a person agreed.
            self.place.check(place).await?;
            opened.unchecked = None;
        }
        Ok(opened.target.clone())
    }

    /// Lets the far side report changes of the root on this connection.
    fn follow(&self, Target { session, root }: &Target) -> Result<(), BackendError> {
        if self.known.start_following(session.number) {
            session.follow(*root, &self.known)?;
        }
        Ok(())
    }

    /// Checks whether this process holds the lock.
    fn is_locked(&self) -> bool {
        self.locked.lock().is_some()
    }

    async fn call(&self, operation: Operation) -> Result<Reply, BackendError> {
        let target = self.target().await?;
        target.session.call(target.root, operation).await
    }

    /// Carries out a step of a write and waits for its result.
    async fn write(&self, step: WriteStep) -> Result<(), BackendError> {
        self.target().await?.write(&self.known, step, None).await?.done()
    }

    async fn read_chunk(
        &self,
        paths: &[RelativePath],
        max: usize,
    ) -> Result<Vec<Result<FileRead, BackendError>>, BackendError> {
        let operation = Operation::Read { paths: path_texts(paths), max: wire::number(max) };
        let asked = self.known.ask();
        match self.call(operation).await? {
            Reply::Read(reads) if reads.0.len() == paths.len() => {
                let read = |read: Result<wire::WireRead, wire::Failure>| Ok(read?.check(max)?);
                let reads: Vec<Result<FileRead, BackendError>> =
                    reads.0.into_iter().map(read).collect();
                let stamps = paths.iter().zip(&reads);
                let stamps =
                    stamps.filter_map(|(path, read)| Some((path, read.as_ref().ok()?.stat.stamp)));
                self.known.add_stamps(asked, stamps);
                Ok(reads)
            }
            _ => Err(wire::Malformed.into()),
        }
    }
}

#[async_trait]
impl Backend for RemoteBackend {
    async fn walk(
        &self,
        from: Option<&RelativePath>,
        extent: Extent,
    ) -> Result<Walk, BackendError> {
        let from = from.map(|path| path.as_str().to_owned());
        let (max, levels) = (wire::number(extent.max), wire::number(extent.levels));
        match self.call(Operation::Walk { from, max, levels }).await? {
            Reply::Walk(walk) => Ok(walk.check(extent)?),
            _ => Err(wire::Malformed.into()),
        }
    }

    async fn list(&self, freshness: Freshness) -> Result<Arc<FileList>, BackendError> {
        let target = self.target().await?;
        let is_locked = self.is_locked();
        if freshness == Freshness::Noticed && !is_locked || self.known.is_watched() {
            self.follow(&target)?;
        }
        let Target { session, root } = target;
        if freshness == Freshness::Noticed
            && let Some(list) = self.known.current_list(session.number, is_locked)
        {
            return Ok(list);
        }
        let asked = self.known.ask();
        let known = self.known.last_list(session.number);
        let operation = Operation::List {
            walked: freshness == Freshness::Walked,
            // With many changes a new list is smaller.
            known: known
                .as_ref()
                .filter(|known| known.list.changes_since_walk() < KNOWN_CHANGES_MAX)
                .map(|known| known.number),
        };
        let (number, list) = match (session.call(root, operation).await?, known) {
            (Reply::SameList, Some(known)) => (known.number, known.list),
            (Reply::ListChanges { number, changes }, Some(known)) => {
                let change = |(path, stat): (String, Option<wire::WireStat>)| {
                    Ok((wire::parse_path(&path)?, stat.map(TryInto::try_into).transpose()?))
                };
                let changes = changes.0.into_iter().map(change);
                let changes = changes.collect::<Result<_, wire::Malformed>>()?;
                let mut list = known.list;
                Arc::make_mut(&mut list).update(changes);
                if list.files.len() > Extent::ALL.max {
                    return Err(wire::Malformed.into());
                }
                (number, list)
            }
            (Reply::List { number, files, files_total, incomplete }, _) => {
                let files = wire::walked_files(files.0, Extent::ALL.max)?;
                let files_total = wire::files_total(files_total, files.len())?;
                let walk = Walk { files, files_total, incomplete, ..Walk::default() };
                (number, Arc::new(FileList::from(walk)))
            }
            _ => return Err(wire::Malformed.into()),
        };
        let session = session.number;
        let known = KnownList { session, asked, number, list: Arc::clone(&list) };
        self.known.set_list(known);
        Ok(list)
    }

    async fn count(&self) -> Result<usize, BackendError> {
        // Before a write, the list was requested along with the kind of its path.
        let target = self.target().await?;
        if self.is_locked()
            && let Some(list) = self.known.current_list(target.session.number, true)
        {
            return Ok(list.files_total);
        }
        match target.session.call(target.root, Operation::Count).await? {
            Reply::Count(number) => Ok(wire::files_total(number, 0)?),
            _ => Err(wire::Malformed.into()),
        }
    }

    async fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
        let is_locked = self.is_locked();
        if is_locked && let Some(KnownKind(kind)) = self.known.kind(path) {
            return Ok(kind);
        }
        let asked = self.known.ask();
        let question = self.call(Operation::Kind(path.as_str().to_owned()));
        let reply = if is_locked {
            // A write mostly needs the names and their number, too. A failure is reported when it asks for them.
            let (reply, _) = tokio::join!(question, self.list(Freshness::Noticed));
            reply
        } else {
            question.await
        };
        let Reply::Kind(kind) = reply? else { return Err(wire::Malformed.into()) };
        let kind = kind.map(FileKind::from);
        if is_locked {
            self.known.set_kind(asked, path, KnownKind(kind));
        }
        Ok(kind)
    }

    async fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
        let max = max.min(SENT_FILE_BYTES_MAX);
        let mut reads = self.read_chunk(std::slice::from_ref(path), max).await?;
        reads.pop().expect("a chunk has a result for each path")
    }

    fn files_at_once(&self, max: usize) -> usize {
        (SENT_TOTAL_BYTES_MAX / max.max(1)).clamp(1, SENT_FILES_MAX)
    }

    fn recent_stamps(&self, paths: &[RelativePath]) -> Option<Vec<Stamp>> {
        self.known.recent_stamps(paths)
    }

    async fn read_many(
        &self,
        paths: &[RelativePath],
        max: usize,
    ) -> Vec<Result<FileRead, BackendError>> {
        let max = max.min(SENT_FILE_BYTES_MAX);
        let mut calls = Vec::new();
        for paths in paths.chunks(self.files_at_once(max)) {
            calls.push(async move { (paths, self.read_chunk(paths, max).await) }.boxed());
        }
        let mut chunks = stream::iter(calls).buffered(READ_CALLS_AT_ONCE);
        let mut read = Vec::with_capacity(paths.len());
        while let Some((paths, chunk)) = chunks.next().await {
            match chunk {
                Ok(chunk) => read.extend(chunk),
                // Each of them failed for the same reason.
                Err(BackendError::Unreachable(reason)) => read
                    .extend(paths.iter().map(|_| Err(BackendError::Unreachable(reason.clone())))),
                Err(_) => read.extend(paths.iter().map(|_| Err(wire::Malformed.into()))),
            }
        }
        read
    }

    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        let target = self.target().await?;
        let step = WriteStep::Stage { path: path.as_str().to_owned(), bytes: bytes.to_vec() };
        let staged = target.session.send(target.root, step)?;
        let known = Arc::clone(&self.known);
        Ok(Box::new(RemoteStaged { target: Some(target), known, staged, modified: None }))
    }

    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError> {
        let (path, expect) = (path.as_str().to_owned(), expect.0);
        self.write(WriteStep::RemoveFile { path, expect }).await
    }

    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError> {
        let path = path.as_str().to_owned();
        let expect = expect.iter().map(|(path, stamp)| (path.as_str().to_owned(), stamp.0));
        self.write(WriteStep::RemoveFolder { path, expect: expect.collect() }).await
    }

    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError> {
        self.write(WriteStep::RemoveEmpty(path.as_str().to_owned())).await
    }

    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError> {
        let (from, to) = (from.as_str().to_owned(), to.as_str().to_owned());
        self.write(WriteStep::Rename { from, to }).await
    }

    async fn lock(
        &self,
        database: DatabaseId,
        wait: Duration,
    ) -> Result<Box<dyn RootLock>, BackendError> {
        let target = self.target().await?;
        let wait_millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let operation = Operation::Lock { database: database.0, wait_millis };
        let (reply, lock) = target.session.call_with(target.root, operation, None).await?;
        let (Reply::Locked { generation, interrupted, restarted, completed }, Some(lock)) =
            (reply, lock)
        else {
            return Err(wire::Malformed.into());
        };
        *self.locked.lock() = Some((lock.number, target.clone()));
        self.known.locked();
        Ok(Box::new(RemoteLock {
            generation: target.generation(generation),
            target,
            lock,
            locked: Arc::clone(&self.locked),
            known: Arc::clone(&self.known),
            completed: wire::completed(completed),
            interrupted,
            restarted,
            has_written: false,
        }))
    }

    async fn last_write(&self) -> LastWrite {
        match self.call(Operation::LastWrite).await {
            Ok(Reply::LastWrite(last)) => last.into(),
            _ => LastWrite::Unknown,
        }
    }

    async fn write_count(&self, freshness: Freshness) -> Option<u64> {
        let target = self.target().await.ok()?;
        let session = target.session.number;
        if freshness == Freshness::Noticed {
            self.follow(&target).ok()?;
            if let Some(known) = self.known.current_writes(session) {
                return Some(target.generation(known.count?));
            }
        }
        let asked = self.known.ask();
        let reply = target.session.call(target.root, Operation::WriteCount).await;
        let Ok(Reply::WriteCount(count)) = reply else { return None };
        self.known.set_writes(asked, KnownWrites { session, count });
        Some(target.generation(count?))
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.known.changes())
    }

    async fn sync(&self, paths: &[RelativePath]) -> Result<(), BackendError> {
        self.write(WriteStep::Sync(path_texts(paths))).await
    }

    async fn sweep(&self, in_history: Arc<IsReferenced>) -> Result<SweepReport, BackendError> {
        let target = self.target().await?;
        match target.write(&self.known, WriteStep::Sweep, Some(in_history)).await? {
            Reply::Swept { removed, restored } => Ok(wire::swept(removed, &restored.0)?),
            _ => Err(wire::Malformed.into()),
        }
    }

    async fn exists(&self) -> Result<bool, BackendError> {
        match self.call(Operation::Exists).await? {
            Reply::Exists(exists) => Ok(exists),
            _ => Err(wire::Malformed.into()),
        }
    }

    async fn holder(&self) -> Option<String> {
        match self.call(Operation::Holder).await {
            Ok(Reply::Holder(Some(_))) => Some("a process on the remote machine".to_owned()),
            _ => None,
        }
    }

    fn unreachable(&self) -> Option<String> {
        self.link.failure()
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }
}

/// Bytes that were sent. The far side reports with the publication whether it could stage them.
#[derive(Debug)]
struct RemoteStaged {
    /// None once they are published.
    target: Option<Target>,
    known: Arc<KnownRoot>,
    staged: u64,
    modified: Option<Timestamp>,
}

#[async_trait]
impl Staged for RemoteStaged {
    fn set_modified(&mut self, at: Timestamp) {
        self.modified = Some(at);
    }

    async fn publish(mut self: Box<Self>, expect: Expect) -> Result<(), BackendError> {
        let target = self.target.take().expect("bytes are published once");
        let step = WriteStep::Publish {
            staged: self.staged,
            modified: self.modified.map(wire::moment),
            expect: wire::expectation(expect),
        };
        target.write(&self.known, step, None).await?.done()
    }
}

impl Drop for RemoteStaged {
    fn drop(&mut self) {
        if let Some(Target { session, root }) = &self.target {
            // The end of the connection discards them, too.
            drop(session.send(*root, WriteStep::Discard { staged: self.staged }));
        }
    }
}

/// The lock of a root, as long as its connection lives.
#[derive(Debug)]
struct RemoteLock {
    target: Target,
    /// Released when it is dropped.
    lock: HeldLock,
    locked: Arc<Mutex<Option<(u64, Target)>>>,
    known: Arc<KnownRoot>,
    generation: u64,
    completed: Option<ChangeId>,
    interrupted: bool,
    restarted: bool,
    has_written: bool,
}

#[async_trait]
impl RootLock for RemoteLock {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    fn machine_restarted(&self) -> bool {
        self.restarted
    }

    fn is_uncertain(&self) -> bool {
        // The mark of a write may have been lost with a connection.
        true
    }

    fn completed(&self) -> Option<ChangeId> {
        self.completed
    }

    async fn begin(&mut self) -> Result<(), BackendError> {
        self.known.begun();
        self.has_written = true;
        let step = WriteStep::Begin { lock: self.lock.number };
        self.target.session.send(self.target.root, step)?;
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    async fn end(&mut self, completed: Option<ChangeId>) -> Result<(), BackendError> {
        // If it gets lost, the next holder of the lock finds the files as they are recorded.
        let number = completed.map(|change| change.0);
        let step = WriteStep::End { lock: self.lock.number, completed: number };
        self.target.session.send(self.target.root, step)?;
        self.completed = completed.or(self.completed);
        self.interrupted = false;
        Ok(())
    }
}

impl Drop for RemoteLock {
    fn drop(&mut self) {
        if self.has_written {
            // The end of a write is read with the release of the lock.
            self.known.written();
        }
        let mut locked = self.locked.lock();
        let session = self.target.session.number;
        let is_own = |(number, target): &mut (u64, Target)| {
            *number == self.lock.number && target.session.number == session
        };
        drop(locked.take_if(is_own));
    }
}

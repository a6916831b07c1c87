//! The messages between this side and the far side, and their encoding.
//!
//! The far side writes a mark, so that whatever a login shell prints before it can be skipped. Then both sides send frames:
//! the length as four bytes, the lowest first, and a message in the encoding of the crate `postcard`.
//!
//! A remote machine is trusted as little as a checkout: what arrives is checked while it is converted.

pub(super) mod context;

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::limits::SCOPE_FILES_MAX;
use memory::path::RelativePath;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_io_timeout::TimeoutReader;

use self::context::{ContextRequest, WireContext};
use crate::backend::{
    BackendError, Expect, Extent, FileKind, FileRead, LastWrite, SkipReason, SkippedEntry, Stamp,
    Stat, SweepReport, Walk, WalkedFile, WalkedFolder,
};

/// Version of the messages and of the way in which both sides use the files. It changes with every change of either.
pub(super) const PROTOCOL: u32 = 1;

/// The longest pause between two messages of a side, and the silence after which the other side takes it for dead. Then
/// locks are released, although a lost network reports no end.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(5);
pub(super) const PEER_SILENCE_MAX: Duration = Duration::from_secs(20);

/// The line before the first frame of the far side.
pub(super) const MARK: &[u8] = b"\nlukasa backend\n";

/// Maximum number of bytes before the mark, which a login shell may print.
pub(super) const GREETING_BYTES_MAX: usize = 64 << 10;

/// Maximum length of a frame in bytes: a list of 100,000 memories with long paths.
const REMOTE_FRAME_BYTES_MAX: usize = 64 << 20;

/// Maximum number of bytes of one file in a frame; more than history keeps of any.
pub(super) const SENT_FILE_BYTES_MAX: usize = 8 << 20;

/// Maximum number of files that one frame reads.
pub(super) const SENT_FILES_MAX: usize = 1_024;

/// Maximum of a size or count from the far side. The sum of 100,000 such numbers fits 64 bits.
const NUMBER_MAX: u64 = 1 << 46;

/// Maximum number of characters of a name that the far side reports.
const REPORTED_CHARS_MAX: usize = 512;

/// Maximum number of changed files in one answer. More are sent as a new list.
pub(super) const LIST_CHANGES_MAX: usize = 4_096;

/// Maximum number of reported names.
pub(super) const REPORTED_NAMES_MAX: usize = 1_000;

/// A message to the far side.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToFar {
    /// A call. Its number is also that of the lock that it acquires, or of the bytes that it stages.
    Call { number: u64, call: Call },
    /// Shows that this side lives.
    Alive,
    /// The answer to a question.
    Answer { question: u64, yes: bool },
}

/// A message from the far side.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromFar {
    /// The first message.
    Hello { protocol: u32, version: String },
    /// Shows that the far side lives.
    Alive,
    /// The result of a call.
    Reply { number: u64, result: Result<Reply, Failure> },
    /// The question of a running sweep, whether history has the bytes of a file.
    Question { number: u64, question: u64, path: String, bytes: Vec<u8> },
    /// The present numbers of the list and of the writes of a followed root, after one of them changed.
    Changed { root: u32, list: u64, writes: Option<u64> },
}

/// A call, of a root that this side numbered when it opened it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) root: u32,
    pub(super) operation: Operation,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Operation {
    /// Opens the root of the checkout that contains a folder.
    Open {
        folder: Vec<u8>,
    },
    Walk {
        from: Option<String>,
        max: u64,
        levels: u64,
    },
    /// Lists the memories, unless the list is still the one with the number `known`.
    List {
        walked: bool,
        known: Option<u64>,
    },
    Count,
    Kind(String),
    Read {
        paths: Vec<String>,
        max: u64,
    },
    LastWrite,
    WriteCount,
    Exists,
    Holder,
    Lock {
        database: u64,
        wait_millis: u64,
    },
    /// A step of a write. Such steps are carried out in the order of their calls.
    Write(WriteStep),
    /// Reports changes of the root from now on.
    Follow,
    /// Loads the context files of a project. Needs no open root.
    LoadContext(ContextRequest),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WriteStep {
    Stage { path: String, bytes: Vec<u8> },
    Publish { staged: u64, modified: Option<(i64, i32)>, expect: Option<[u64; 4]> },
    Discard { staged: u64 },
    RemoveFile { path: String, expect: [u64; 4] },
    RemoveFolder { path: String, expect: Vec<(String, [u64; 4])> },
    RemoveEmpty(String),
    Rename { from: String, to: String },
    Sync(Vec<String>),
    Sweep,
    Begin { lock: u64 },
    End { lock: u64, completed: Option<i64> },
    Unlock { lock: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Done,
    Opened {
        place: String,
    },
    Walk(WireWalk),
    /// The list is still the known one.
    SameList,
    List {
        number: u64,
        files: Bounded<(String, WireStat), SCOPE_FILES_MAX>,
        files_total: u64,
        incomplete: bool,
    },
    /// The list with this number, as changes of the known one.
    ListChanges {
        number: u64,
        changes: Bounded<(String, Option<WireStat>), LIST_CHANGES_MAX>,
    },
    Count(u64),
    Kind(Option<WireKind>),
    Read(Bounded<Result<WireRead, Failure>, SENT_FILES_MAX>),
    LastWrite(WireLastWrite),
    WriteCount(Option<u64>),
    Exists(bool),
    Holder(Option<String>),
    Locked {
        generation: u64,
        interrupted: bool,
        restarted: bool,
        completed: Option<i64>,
    },
    Context {
        place: String,
        files: WireContext,
    },
    Swept {
        removed: u64,
        restored: Bounded<String, REPORTED_NAMES_MAX>,
    },
}

impl Reply {
    /// Checks that a step of a write was carried out, and reports nothing.
    pub(super) fn done(self) -> Result<(), BackendError> {
        match self {
            Self::Done => Ok(()),
            _ => Err(Malformed.into()),
        }
    }
}

/// A failed operation. It carries no text of the far side but names of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Failure {
    NotFound,
    Occupied,
    WrongKind,
    Changed,
    Escapes(String),
    Full(Option<i32>),
    NotWritable(Option<i32>),
    Locked {
        wait_millis: u64,
    },
    Io(Option<i32>),
    /// The folder is in no checkout.
    NoCheckout,
    /// A message that the other side does not understand.
    Malformed,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct WireStat {
    bytes: u64,
    modified: (i64, i32),
    stamp: [u64; 4],
    recent: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireRead {
    bytes: Vec<u8>,
    stat: WireStat,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireWalk {
    files: Bounded<(String, WireStat), SCOPE_FILES_MAX>,
    folders: Bounded<(String, u64), SCOPE_FILES_MAX>,
    in_reach: u64,
    files_total: u64,
    folders_total: u64,
    bytes_total: u64,
    skipped: Bounded<(String, WireSkip), REPORTED_NAMES_MAX>,
    incomplete: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum WireKind {
    File,
    Folder,
    Other,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum WireSkip {
    Unaddressable,
    Link,
    Special,
    TooDeep,
    Unreadable,
    Temporary,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum WireLastWrite {
    Ended,
    Interrupted,
    Unknown,
}

/// A list of at most `MAX` values. A longer one is refused while it is decoded, since a few bytes may stand for a large
/// value.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Bounded<T, const MAX: usize>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Bounded<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Values<T, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX} values")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Vec<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(value) = values.next_element()? {
                    if list.len() == MAX {
                        return Err(serde::de::Error::invalid_length(MAX + 1, &self));
                    }
                    list.push(value);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Values::<T, MAX>(PhantomData)).map(Self)
    }
}

/// A message that breaks a rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is malformed")]
pub(super) struct Malformed;

/// Returns a reader that fails after a long silence of the other side.
pub(super) fn patient<R: AsyncRead>(input: R) -> Pin<Box<TimeoutReader<R>>> {
    let mut input = TimeoutReader::new(input);
    input.set_timeout(Some(PEER_SILENCE_MAX));
    Box::pin(input)
}

/// Encodes a message as a frame.
pub(super) fn frame(message: &impl Serialize) -> Result<Vec<u8>, Malformed> {
    let body = postcard::to_allocvec(message).map_err(|_| Malformed)?;
    let bytes = u32::try_from(body.len()).ok().filter(|_| body.len() <= REMOTE_FRAME_BYTES_MAX);
    let mut frame = bytes.ok_or(Malformed)?.to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Reads a message; `None` at the end of the input.
pub(super) async fn read_frame<T: DeserializeOwned>(
    input: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    };
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, Malformed);
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| invalid())?;
    if length > REMOTE_FRAME_BYTES_MAX {
        return Err(invalid());
    }
    // The buffer grows with what arrives, not with what the other side announces.
    let mut body = Vec::new();
    let expected = u64::try_from(length).map_err(|_| invalid())?;
    input.take(expected).read_to_end(&mut body).await?;
    if body.len() < length {
        return Ok(None);
    }
    match postcard::take_from_bytes(&body) {
        Ok((message, [])) => Ok(Some(message)),
        _ => Err(invalid()),
    }
}

pub(super) fn parse_path(text: &str) -> Result<RelativePath, Malformed> {
    let path = RelativePath::parse(text).map_err(|_| Malformed)?;
    // The parser normalizes. A path that it changes would name another file here than there.
    if path.as_str() == text { Ok(path) } else { Err(Malformed) }
}

pub(super) fn path_texts<'a>(paths: impl IntoIterator<Item = &'a RelativePath>) -> Vec<String> {
    paths.into_iter().map(|path| path.as_str().to_owned()).collect()
}

pub(super) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn count(number: u64) -> Result<usize, Malformed> {
    usize::try_from(checked(number)?).map_err(|_| Malformed)
}

fn checked(number: u64) -> Result<u64, Malformed> {
    if number <= NUMBER_MAX { Ok(number) } else { Err(Malformed) }
}

/// Cuts a name of the far side.
fn name(text: &str) -> String {
    text.chars().take(REPORTED_CHARS_MAX).collect()
}

pub(super) fn completed(number: Option<i64>) -> Option<ChangeId> {
    number.filter(|number| *number > 0).map(ChangeId)
}

pub(super) fn expectation(expect: Expect) -> Option<[u64; 4]> {
    match expect {
        Expect::Absent => None,
        Expect::File(Stamp(numbers)) => Some(numbers),
    }
}

pub(super) fn expect(numbers: Option<[u64; 4]>) -> Expect {
    numbers.map_or(Expect::Absent, |numbers| Expect::File(Stamp(numbers)))
}

pub(super) fn moment(at: Timestamp) -> (i64, i32) {
    (at.as_second(), at.subsec_nanosecond())
}

pub(super) fn timestamp((seconds, nanoseconds): (i64, i32)) -> Result<Timestamp, Malformed> {
    Timestamp::new(seconds, nanoseconds).map_err(|_| Malformed)
}

impl From<Stat> for WireStat {
    fn from(stat: Stat) -> Self {
        let Stat { bytes, modified_at, stamp: Stamp(stamp), recent } = stat;
        Self { bytes, modified: moment(modified_at), stamp, recent }
    }
}

impl TryFrom<WireStat> for Stat {
    type Error = Malformed;

    fn try_from(stat: WireStat) -> Result<Self, Malformed> {
        let WireStat { bytes, modified, stamp, recent } = stat;
        let (bytes, modified_at) = (checked(bytes)?, timestamp(modified)?);
        Ok(Self { bytes, modified_at, stamp: Stamp(stamp), recent })
    }
}

impl From<FileRead> for WireRead {
    fn from(read: FileRead) -> Self {
        Self { bytes: read.bytes, stat: read.stat.into() }
    }
}

impl WireRead {
    /// Returns the bytes, of which `max` were requested.
    pub(super) fn check(self, max: usize) -> Result<FileRead, Malformed> {
        let stat = Stat::try_from(self.stat)?;
        let fits = self.bytes.len() <= max && number(self.bytes.len()) <= stat.bytes;
        if fits { Ok(FileRead { bytes: self.bytes, stat }) } else { Err(Malformed) }
    }
}

/// Converts files that have to be in the order of their paths, without duplicates.
pub(super) fn walked_files(
    files: Vec<(String, WireStat)>,
    max: usize,
) -> Result<Vec<WalkedFile>, Malformed> {
    if files.len() > max {
        return Err(Malformed);
    }
    let files = files
        .into_iter()
        .map(|(path, stat)| Ok(WalkedFile { path: parse_path(&path)?, stat: stat.try_into()? }));
    let files: Vec<WalkedFile> = files.collect::<Result<_, _>>()?;
    let is_sorted = files.is_sorted_by(|one, next| one.path.as_str() < next.path.as_str());
    if is_sorted { Ok(files) } else { Err(Malformed) }
}

pub(super) fn wire_files(files: &[WalkedFile]) -> Vec<(String, WireStat)> {
    files.iter().map(|file| (file.path.as_str().to_owned(), file.stat.into())).collect()
}

impl From<Walk> for WireWalk {
    fn from(walk: Walk) -> Self {
        let folder = |folder: &WalkedFolder| (folder.path.as_str().to_owned(), folder.bytes);
        let skipped = |entry: SkippedEntry| (name(&entry.name), entry.reason.into());
        Self {
            files: Bounded(wire_files(&walk.files)),
            folders: Bounded(walk.folders.iter().map(folder).collect()),
            in_reach: number(walk.in_reach),
            files_total: number(walk.files_total),
            folders_total: number(walk.folders_total),
            bytes_total: walk.bytes_total,
            skipped: Bounded(
                walk.skipped.into_iter().take(REPORTED_NAMES_MAX).map(skipped).collect(),
            ),
            incomplete: walk.incomplete,
        }
    }
}

impl WireWalk {
    /// Returns the walk, of which `extent` was requested.
    pub(super) fn check(self, extent: Extent) -> Result<Walk, Malformed> {
        if self.folders.0.len() > extent.max {
            return Err(Malformed);
        }
        let folder = |(path, bytes): (String, u64)| {
            Ok(WalkedFolder { path: parse_path(&path)?, bytes: checked(bytes)? })
        };
        let skipped = |(text, reason): (String, WireSkip)| SkippedEntry {
            name: name(&text),
            reason: reason.into(),
        };
        let files = walked_files(self.files.0, extent.max)?;
        let files_total = files_total(self.files_total, files.len())?;
        Ok(Walk {
            files,
            folders: self.folders.0.into_iter().map(folder).collect::<Result<_, _>>()?,
            in_reach: count(self.in_reach)?,
            files_total,
            folders_total: count(self.folders_total)?,
            bytes_total: checked(self.bytes_total)?,
            skipped: self.skipped.0.into_iter().map(skipped).collect(),
            incomplete: self.incomplete,
        })
    }
}

/// Checks the number of all memories of a list.
pub(super) fn files_total(total: u64, listed: usize) -> Result<usize, Malformed> {
    count(total).ok().filter(|total| *total >= listed).ok_or(Malformed)
}

pub(super) fn swept(removed: u64, restored: &[String]) -> Result<SweepReport, Malformed> {
    let restored = restored.iter().map(|text| name(text)).collect();
    Ok(SweepReport { removed: count(removed)?, restored })
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::NotFound => Self::NotFound,
            BackendError::Occupied => Self::Occupied,
            BackendError::WrongKind => Self::WrongKind,
            BackendError::Changed => Self::Changed,
            BackendError::Escapes(text) => Self::Escapes(name(&text)),
            BackendError::Full(error) => Self::Full(error.raw_os_error()),
            BackendError::NotWritable(error) => Self::NotWritable(error.raw_os_error()),
            BackendError::Locked(wait) => {
                Self::Locked { wait_millis: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) }
            }
            BackendError::Io { source, .. } => Self::Io(source.raw_os_error()),
            BackendError::Unreachable(_) | BackendError::StateUnreachable(_) => Self::Io(None),
        }
    }
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        let error = |code: Option<i32>| match code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::other("the remote machine gave no reason"),
        };
        match failure {
            Failure::NotFound => Self::NotFound,
            Failure::Occupied => Self::Occupied,
            Failure::WrongKind => Self::WrongKind,
            Failure::Changed => Self::Changed,
            Failure::Escapes(text) => Self::Escapes(name(&text)),
            Failure::Full(code) => Self::Full(error(code)),
            Failure::NotWritable(code) => Self::NotWritable(error(code)),
            Failure::Locked { wait_millis } => Self::Locked(Duration::from_millis(wait_millis)),
            Failure::Io(code) => Self::Io { doing: "use the remote folder", source: error(code) },
            Failure::NoCheckout => Self::Unreachable(NO_CHECKOUT.to_owned()),
            Failure::Malformed => Malformed.into(),
        }
    }
}

/// The reason for a folder that is in no checkout.
const NO_CHECKOUT: &str = "the remote folder is in no git checkout";

impl From<Malformed> for BackendError {
    fn from(malformed: Malformed) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidData, malformed);
        Self::Io { doing: "understand the answer of the remote machine", source }
    }
}

macro_rules! same_words {
    ($here:ident, $wire:ident { $($word:ident),* }) => {
        impl From<$here> for $wire {
            fn from(word: $here) -> Self {
                match word {
                    $($here::$word => Self::$word,)*
                }
            }
        }

        impl From<$wire> for $here {
            fn from(word: $wire) -> Self {
                match word {
                    $($wire::$word => Self::$word,)*
                }
            }
        }
    };
}

same_words!(FileKind, WireKind { File, Folder, Other });
same_words!(LastWrite, WireLastWrite { Ended, Interrupted, Unknown });
same_words!(SkipReason, WireSkip { Unaddressable, Link, Special, TooDeep, Unreadable, Temporary });

//! The cache file of a corpus in the state folder. It is derived from memories, so it may be
//! deleted at any time.
//!
//! It contains the packed corpus, the name of the set of mounts, and the stamp of each file that
//! was read. It contains no texts. A file that does not match is ignored silently, and the corpus
//! is built again.

use std::collections::HashMap;
use std::sync::OnceLock;

use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::MemoryPath;
use memory::screen::Screen;
use recall::Corpus;
use store::CacheDir;
use store::backend::Stamp;

use super::corpus::CachedMemory;

/// Number of hex digits of a digest in a file name.
pub(super) const DIGEST_CHARS: usize = 32;
/// Version of the record format.
const FORMAT_VERSION: u8 = 1;
/// Size of a memory's record: a flag for the stamp, the stamp, the revision, seconds and
/// nanoseconds.
const RECORD_BYTES: usize = 1 + 32 + 32 + 8 + 4;

/// The cache file of a corpus, and how much the corpus has changed since it was written.
#[derive(Debug)]
pub(super) struct CorpusSlot {
    /// The file; `None` if corpora are not cached.
    pub(super) file: Option<CorpusFile>,
    /// The file, until it was loaded.
    pub(super) unloaded: Option<CorpusFile>,
    /// Number of memories that a process with the old file would have to read again.
    pub(super) drift: usize,
}

/// The file of a corpus.
#[derive(Clone, Debug)]
pub(super) struct CorpusFile {
    files: CacheDir,
    /// The name of the set of mounts.
    corpus_name: String,
}

impl CorpusSlot {
    pub(super) fn new(files: Option<CacheDir>, of: &str) -> Self {
        let file = files.map(|files| CorpusFile { files, corpus_name: of.to_owned() });
        Self { unloaded: file.clone(), file, drift: 0 }
    }
}

impl CorpusFile {
    /// Returns the file name: a digest of the name of the set of mounts.
    fn name(&self) -> String {
        let digest = Revision::digest(self.corpus_name.as_bytes()).to_string();
        digest.chars().take(DIGEST_CHARS).collect()
    }

    /// Loads the corpus, if the file is of these mounts and these screening rules.
    pub(super) fn load(
        &self,
        screen: Screen,
    ) -> Option<(Corpus, HashMap<MemoryPath, CachedMemory>)> {
        let bytes = self.files.read(&self.name())?;
        let (corpus, header) = Corpus::unpack(screen, &bytes)?;
        let records =
            header.strip_prefix(&[FORMAT_VERSION])?.strip_prefix(self.corpus_name.as_bytes())?;
        let (records, []) = records.as_chunks::<RECORD_BYTES>() else { return None };
        (records.len() == corpus.memories()).then_some(())?;
        let memories = corpus.paths().cloned().zip(records);
        let memories = memories.map(|(path, record)| Some((path, unpack_record(record)?)));
        let memories = memories.collect::<Option<_>>()?;
        Some((corpus, memories))
    }

    /// Encodes a corpus with the records of its memories; `None` if it cannot be cached.
    pub(super) fn pack(
        &self,
        corpus: &Corpus,
        memories: &HashMap<MemoryPath, CachedMemory>,
    ) -> Option<Vec<u8>> {
        let mut header = vec![FORMAT_VERSION];
        header.extend_from_slice(self.corpus_name.as_bytes());
        for path in corpus.paths() {
            header.extend_from_slice(&pack_record(memories.get(path)?));
        }
        corpus.pack(&header)
    }

    /// Writes the file. After an error, the next process builds the corpus again.
    pub(super) fn store(&self, packed: Option<Vec<u8>>) {
        let Some(packed) = packed else { return };
        if let Err(error) = self.files.write(&self.name(), &packed) {
            tracing::warn!(%error, "error while writing a corpus to its cache file");
        }
    }
}

fn pack_record(read: &CachedMemory) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0] = u8::from(read.stamp.is_some());
    let numbers = read.stamp.unwrap_or_default().0.into_iter().flat_map(u64::to_le_bytes);
    let seconds = read.modified_at.as_second().to_le_bytes();
    let rest = read.modified_at.subsec_nanosecond().to_le_bytes();
    let all = numbers.chain(*read.revision.as_bytes()).chain(seconds).chain(rest);
    record[1..].iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
    record
}

fn unpack_record(record: &[u8; RECORD_BYTES]) -> Option<CachedMemory> {
    let (has_stamp, record) = record.split_first()?;
    let (stamp, record) = record.split_first_chunk::<32>()?;
    let (revision, record) = record.split_first_chunk::<32>()?;
    let (seconds, record) = record.split_first_chunk::<8>()?;
    let rest = i32::from_le_bytes(record.try_into().ok()?);
    let numbers = stamp.as_chunks::<8>().0;
    let stamp = Stamp(std::array::from_fn(|index| u64::from_le_bytes(numbers[index])));
    Some(CachedMemory {
        stamp: (*has_stamp == 1).then_some(stamp),
        revision: Revision::from_bytes(*revision),
        modified_at: Timestamp::new(i64::from_le_bytes(*seconds), rest).ok()?,
        text: OnceLock::new(),
    })
}

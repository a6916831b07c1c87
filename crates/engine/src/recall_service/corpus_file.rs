//! A corpus in the state folder: made from memories, so it may be thrown away at any time.
//!
//! Beside the corpus it says whose memories they are and which version of each file was read. No text of a memory
//! is in it. Whatever does not fit is as good as nothing, and nobody is told: the corpus is made anew.

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

/// How many hex digits of a digest a file's name has.
pub(super) const DIGEST_CHARS: usize = 32;
/// Which form the facts have.
const FORMAT_VERSION: u8 = 1;
/// A memory's facts: whether it has a stamp, the stamp, the revision, seconds and nanoseconds.
const RECORD_BYTES: usize = 1 + 32 + 32 + 8 + 4;

/// Where a corpus is kept, and how far it is from what is there.
#[derive(Debug)]
pub(super) struct CorpusSlot {
    /// The file; `None` where nothing is kept.
    pub(super) file: Option<CorpusFile>,
    /// The same, as long as nobody looked whether it is there.
    pub(super) unloaded: Option<CorpusFile>,
    /// How many memories would have to be read again.
    pub(super) drift: usize,
}

/// The file of a corpus.
#[derive(Clone, Debug)]
pub(super) struct CorpusFile {
    files: CacheDir,
    /// Whose memories they are.
    corpus_name: String,
}

impl CorpusSlot {
    pub(super) fn new(files: Option<CacheDir>, of: &str) -> Self {
        let file = files.map(|files| CorpusFile { files, corpus_name: of.to_owned() });
        Self { unloaded: file.clone(), file, drift: 0 }
    }
}

impl CorpusFile {
    /// Returns the name of the file: a digest of whose memories they are.
    fn name(&self) -> String {
        let digest = Revision::digest(self.corpus_name.as_bytes()).to_string();
        digest.chars().take(DIGEST_CHARS).collect()
    }

    /// Returns what was kept, if it is of these memories and of this screen.
    pub(super) fn load(
        &self,
        screen: Screen,
    ) -> Option<(Corpus, HashMap<MemoryPath, CachedMemory>)> {
        let bytes = self.files.read(&self.name())?;
        let (corpus, about) = Corpus::unpack(screen, &bytes)?;
        let facts =
            about.strip_prefix(&[FORMAT_VERSION])?.strip_prefix(self.corpus_name.as_bytes())?;
        let (facts, []) = facts.as_chunks::<RECORD_BYTES>() else { return None };
        (facts.len() == corpus.memories()).then_some(())?;
        let memories = corpus.paths().cloned().zip(facts);
        let memories = memories.map(|(path, facts)| Some((path, unpack_record(facts)?)));
        let memories = memories.collect::<Option<_>>()?;
        Some((corpus, memories))
    }

    /// Returns a corpus and its facts as bytes; `None` if it cannot be kept.
    pub(super) fn pack(
        &self,
        corpus: &Corpus,
        memories: &HashMap<MemoryPath, CachedMemory>,
    ) -> Option<Vec<u8>> {
        let mut about = vec![FORMAT_VERSION];
        about.extend_from_slice(self.corpus_name.as_bytes());
        for path in corpus.paths() {
            about.extend_from_slice(&pack_record(memories.get(path)?));
        }
        corpus.pack(&about)
    }

    /// Puts it in its place. Where that fails, the next process has it to do.
    pub(super) fn store(&self, packed: Option<Vec<u8>>) {
        let Some(packed) = packed else { return };
        if let Err(error) = self.files.write(&self.name(), &packed) {
            tracing::warn!(%error, "a corpus cannot be kept");
        }
    }
}

fn pack_record(read: &CachedMemory) -> [u8; RECORD_BYTES] {
    let mut facts = [0; RECORD_BYTES];
    facts[0] = u8::from(read.stamp.is_some());
    let numbers = read.stamp.unwrap_or_default().0.into_iter().flat_map(u64::to_le_bytes);
    let seconds = read.modified_at.as_second().to_le_bytes();
    let rest = read.modified_at.subsec_nanosecond().to_le_bytes();
    let all = numbers.chain(*read.revision.as_bytes()).chain(seconds).chain(rest);
    facts[1..].iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
    facts
}

fn unpack_record(facts: &[u8; RECORD_BYTES]) -> Option<CachedMemory> {
    let (has_stamp, facts) = facts.split_first()?;
    let (stamp, facts) = facts.split_first_chunk::<32>()?;
    let (revision, facts) = facts.split_first_chunk::<32>()?;
    let (seconds, facts) = facts.split_first_chunk::<8>()?;
    let rest = i32::from_le_bytes(facts.try_into().ok()?);
    let numbers = stamp.as_chunks::<8>().0;
    let stamp = Stamp(std::array::from_fn(|at| u64::from_le_bytes(numbers[at])));
    Some(CachedMemory {
        stamp: (*has_stamp == 1).then_some(stamp),
        revision: Revision::from_bytes(*revision),
        modified_at: Timestamp::new(i64::from_le_bytes(*seconds), rest).ok()?,
        text: OnceLock::new(),
    })
}

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

use super::corpus::Read;

/// How many hex digits of a digest a file's name has.
pub(super) const DIGEST_CHARS: usize = 32;
/// Which form the facts have.
const FORM: u8 = 1;
/// A memory's facts: whether it has a stamp, the stamp, the revision, seconds and nanoseconds.
const FACTS_BYTES: usize = 1 + 32 + 32 + 8 + 4;

/// Where a corpus is kept, and how far it is from what is there.
#[derive(Debug)]
pub(super) struct Place {
    /// The file; `None` where nothing is kept.
    pub(super) file: Option<File>,
    /// The same, as long as nobody looked whether it is there.
    pub(super) unread: Option<File>,
    /// How many memories would have to be read again.
    pub(super) drift: usize,
}

/// The file of a corpus.
#[derive(Clone, Debug)]
pub(super) struct File {
    files: CacheDir,
    /// Whose memories they are.
    of: String,
}

impl Place {
    pub(super) fn new(files: Option<CacheDir>, of: &str) -> Self {
        let file = files.map(|files| File { files, of: of.to_owned() });
        Self { unread: file.clone(), file, drift: 0 }
    }
}

impl File {
    /// Returns the name of the file: a digest of whose memories they are.
    fn name(&self) -> String {
        let digest = Revision::digest(self.of.as_bytes()).to_string();
        digest.chars().take(DIGEST_CHARS).collect()
    }

    /// Returns what was kept, if it is of these memories and of this screen.
    pub(super) fn read(&self, screen: Screen) -> Option<(Corpus, HashMap<MemoryPath, Read>)> {
        let bytes = self.files.read(&self.name())?;
        let (corpus, about) = Corpus::unpack(screen, &bytes)?;
        let facts = about.strip_prefix(&[FORM])?.strip_prefix(self.of.as_bytes())?;
        let (facts, []) = facts.as_chunks::<FACTS_BYTES>() else { return None };
        (facts.len() == corpus.memories()).then_some(())?;
        let memories = corpus.paths().cloned().zip(facts);
        let memories = memories.map(|(path, facts)| Some((path, read(facts)?)));
        let memories = memories.collect::<Option<_>>()?;
        Some((corpus, memories))
    }

    /// Returns a corpus and its facts as bytes; `None` if it cannot be kept.
    pub(super) fn pack(
        &self,
        corpus: &Corpus,
        memories: &HashMap<MemoryPath, Read>,
    ) -> Option<Vec<u8>> {
        let mut about = vec![FORM];
        about.extend_from_slice(self.of.as_bytes());
        for path in corpus.paths() {
            about.extend_from_slice(&facts(memories.get(path)?));
        }
        corpus.pack(&about)
    }

    /// Puts it in its place. Where that fails, the next process has it to do.
    pub(super) fn write(&self, packed: Option<Vec<u8>>) {
        let Some(packed) = packed else { return };
        if let Err(error) = self.files.write(&self.name(), &packed) {
            tracing::warn!(%error, "a corpus cannot be kept");
        }
    }
}

fn facts(read: &Read) -> [u8; FACTS_BYTES] {
    let mut facts = [0; FACTS_BYTES];
    facts[0] = u8::from(read.stamp.is_some());
    let numbers = read.stamp.unwrap_or_default().0.into_iter().flat_map(u64::to_le_bytes);
    let seconds = read.modified_at.as_second().to_le_bytes();
    let rest = read.modified_at.subsec_nanosecond().to_le_bytes();
    let all = numbers.chain(*read.revision.as_bytes()).chain(seconds).chain(rest);
    facts[1..].iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
    facts
}

fn read(facts: &[u8; FACTS_BYTES]) -> Option<Read> {
    let (has_stamp, facts) = facts.split_first()?;
    let (stamp, facts) = facts.split_first_chunk::<32>()?;
    let (revision, facts) = facts.split_first_chunk::<32>()?;
    let (seconds, facts) = facts.split_first_chunk::<8>()?;
    let rest = i32::from_le_bytes(facts.try_into().ok()?);
    let numbers = stamp.as_chunks::<8>().0;
    let stamp = Stamp(std::array::from_fn(|at| u64::from_le_bytes(numbers[at])));
    Some(Read {
        stamp: (*has_stamp == 1).then_some(stamp),
        revision: Revision::from_bytes(*revision),
        modified_at: Timestamp::new(i64::from_le_bytes(*seconds), rest).ok()?,
        text: OnceLock::new(),
    })
}

//! Keeps a corpus as the memories of a caller are, whoever changed them.
//!
//! The files are the truth: each time they are listed, and what has another stamp than before is read again. A
//! file that another write could have left with the same stamp is read each time.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use memory::document;
use memory::path::{MemoryPath, Mount, Scope};
use memory::screen::Screen;
use store::backend::Stamp;
use store::{MEMORY_LIST, Memories, StoreError, Surveyed};

use crate::Corpus;

/// A corpus that follows the memories of one caller.
#[derive(Debug, Default)]
pub struct Followed {
    corpus: Corpus,
    /// What was read, with the stamp it had.
    seen: BTreeMap<MemoryPath, Option<Stamp>>,
}

/// What became of a corpus that was brought up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// How many memories were read.
    pub read: usize,
    /// How many are no more.
    pub gone: usize,
}

impl Followed {
    /// Returns a corpus of nothing yet. What `screen` objects to never enters it.
    pub fn new(screen: Screen) -> Self {
        Self { corpus: Corpus::new(screen), seen: BTreeMap::new() }
    }

    /// Returns the corpus as it was last brought up to date.
    pub const fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Brings the corpus up to date. A memory that cannot be read is left out; a listing that was generated
    /// is none.
    ///
    /// # Errors
    ///
    /// When a root cannot be listed or read. What was read until then is kept.
    pub async fn bring(&mut self, memories: &Memories) -> Result<Brought, StoreError> {
        let surveyed = Box::pin(memories.survey()).await?;
        let mut brought = Brought::default();
        let mut seen = BTreeMap::new();
        for one in surveyed {
            let known = self.seen.remove(&one.path);
            if known.flatten().is_none_or(|stamp| Some(stamp) != one.stamp) {
                brought.read += 1;
                if let Err(error) = self.read(memories, &one).await {
                    // What was not looked at yet is still what it was; this one is asked for again.
                    self.seen.append(&mut seen);
                    self.seen.insert(one.path, None);
                    return Err(error);
                }
            }
            seen.insert(one.path, one.stamp);
        }
        for path in self.seen.keys() {
            brought.gone += usize::from(self.corpus.remove(path));
        }
        self.seen = seen;
        Ok(brought)
    }

    async fn read(&mut self, memories: &Memories, one: &Surveyed) -> Result<(), StoreError> {
        let text = match memories.read(&one.path).await {
            Ok(read) => read.text,
            Err(StoreError::Refused(_)) => {
                self.corpus.remove(&one.path);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let is_list = one.path.relative().is_some_and(|path| path.as_str() == MEMORY_LIST);
        if is_list && document::is_generated_list(&text) {
            self.corpus.remove(&one.path);
            return Ok(());
        }
        // The files of a checkout have the time of the checkout.
        let ours = one.path.mount() != Some(Mount::Scope(Scope::Project));
        let written = ours.then(|| one.modified_at.to_zoned(TimeZone::UTC).date());
        self.corpus.put(&one.path, &text, written);
        Ok(())
    }
}

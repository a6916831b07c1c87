//! A corpus with the vectors of a sentence encoder, if one is given.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use memory::limits::EMBED_CHARS_MAX;
use memory::path::MemoryPath;
use memory::screen::Screen;
use recall::{
    Corpus, DenseScores, EntryHit, EntryVectors, MemoryHit, RankOptions, Ranking, SimilarityScale,
    Vector, passages,
};

use crate::encoder::{self, Embed};

/// A sentence encoder that embeds each text once.
pub(crate) struct CachedEncoder {
    embed: Embed,
    vectors: RefCell<HashMap<String, Option<Vector>>>,
}

impl CachedEncoder {
    pub(crate) fn open(file: &Path) -> anyhow::Result<Self> {
        Ok(Self { embed: encoder::open(file)?, vectors: RefCell::default() })
    }

    fn vector(&self, text: &str) -> Option<Vector> {
        if let Some(known) = self.vectors.borrow().get(text) {
            return known.clone();
        }
        let vector = (self.embed)(text).and_then(|numbers| Vector::from_numbers(&numbers));
        self.vectors.borrow_mut().insert(text.to_owned(), vector.clone());
        vector
    }
}

/// A corpus, and what its entries are compared with a prompt by.
pub(super) struct IndexedCorpus<'a> {
    corpus: Corpus,
    encoder: Option<&'a CachedEncoder>,
    vectors: EntryVectors,
}

impl<'a> IndexedCorpus<'a> {
    /// Indexes memories, each with its path, its text, and the day it was written if that is not part of the text.
    pub(super) fn new<'b>(
        memories: impl IntoIterator<Item = (&'b MemoryPath, &'b str, Option<&'b str>)>,
        encoder: Option<&'a CachedEncoder>,
    ) -> Self {
        let screen = Screen::default();
        let mut corpus = Corpus::new(screen.clone());
        let mut embedded: HashMap<MemoryPath, Vec<Option<Vector>>> = HashMap::new();
        for (path, text, day) in memories {
            corpus.put(path, text, day.and_then(|day| day.parse().ok()));
            if let Some(encoder) = encoder {
                let texts = passages(text, &screen, EMBED_CHARS_MAX);
                let vectors = texts.iter().map(|text| encoder.vector(text)).collect();
                embedded.insert(path.clone(), vectors);
            }
        }
        let vectors = corpus.entry_vectors(|path| {
            embedded.get(path).into_iter().flatten().map(Option::as_ref).collect()
        });
        Self { corpus, encoder, vectors }
    }

    pub(super) fn rank(&self, prompt: &str, options: &RankOptions) -> Vec<MemoryHit> {
        self.corpus.rank_with(prompt, options, self.dense_scores(prompt).as_ref(), |_| true)
    }

    pub(super) fn rank_entries(&self, prompt: &str, options: &RankOptions) -> Vec<EntryHit> {
        self.corpus.rank_entries(prompt, options, self.dense_scores(prompt).as_ref())
    }

    pub(super) fn ranking(&self, prompt: &str, options: &RankOptions) -> Ranking {
        self.corpus.ranking(prompt, options, self.dense_scores(prompt).as_ref())
    }

    fn dense_scores(&self, prompt: &str) -> Option<DenseScores> {
        let text: String = prompt.trim().chars().take(EMBED_CHARS_MAX).collect();
        let vector = self.encoder?.vector(&text)?;
        Some(self.corpus.dense_scores(&vector, &self.vectors, SimilarityScale::Encoder))
    }
}

//! What a conversation is given at the beginning of a segment, and what is told at its tail while it lasts.
//!
//! The bytes that were given stay as they are, here and in the state. What changed since is looked at beside the
//! turn, and told once, at the first moment at which it is there.

use std::sync::Arc;

use context::segment::{ContextPart, Segment};
use memory::limits::DELTA_BYTES_MAX;
use store::{ContextFiles, StoreError};
use tokio_util::sync::CancellationToken;

use super::record::Given;
use super::{Conversation, Now};
use crate::prefetch::{Prefetch, Taken};
use crate::segment::{self, Look};

/// What a model is given at the beginning of a segment, or again within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// What it was given at the beginning; the same bytes as long as the segment lasts.
    pub segment: Arc<Segment>,
    /// Whether it was given before: [`Conversation::changed`] says what changed since.
    pub again: bool,
}

/// How a conversation wants to begin, or to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The most bytes of text that the host takes at once.
    pub bytes_max: usize,
    /// Whether the model knows nothing of what it was given before, so that a new segment begins.
    pub anew: bool,
}

/// What changed since a session began, with its frame, in bytes.
const CHANGES_BYTES_MAX: usize = DELTA_BYTES_MAX + 512;

/// What was seen of memories, and what was known of them by what another process kept.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    given: Given,
    look: Look,
}

impl Conversation {
    /// Returns what the model is given at the beginning of the segment that the conversation is in: gathered once,
    /// and the same bytes until the next compaction, whatever is written meanwhile and whichever process is asked.
    pub async fn context(&self, files: &ContextFiles) -> Result<Begun, StoreError> {
        self.context_within(files, usize::MAX).await
    }

    /// The same as the host wants it, with what changed since it was given, where there is room for both. Without
    /// room that waits for the next prompt.
    pub async fn begin(
        &self,
        files: &ContextFiles,
        beginning: Beginning,
    ) -> Result<(Begun, Option<ContextPart>), StoreError> {
        if beginning.anew {
            self.begins_anew().await;
        }
        let begun = self.context_within(files, beginning.bytes_max).await?;
        let room = beginning.bytes_max.saturating_sub(begun.segment.text().len());
        let is_told = begun.again && room >= CHANGES_BYTES_MAX;
        let changes = if is_told { self.changed().await } else { None };
        Ok((begun, changes))
    }

    /// The same in at most so many bytes, if it is gathered now; see
    /// [`Engine::segment_within`](crate::Engine::segment_within).
    pub async fn context_within(
        &self,
        files: &ContextFiles,
        bytes_max: usize,
    ) -> Result<Begun, StoreError> {
        if let Some(given) = self.given().await {
            return Ok(Begun { segment: given.segment, again: true });
        }
        let of = self.now.lock().kept.segment;
        let (limits, now) = ((self.imports, bytes_max), self.clock.now());
        let showing = segment::gather(&self.memories, files, limits, now).await?;
        let mut now = self.now.lock();
        // Whoever was first is whom the others are given.
        if let Some(given) = now.given_of(of) {
            return Ok(Begun { segment: Arc::clone(&given.segment), again: true });
        }
        // What the model has whole is not recalled beside a prompt.
        let mut whole =
            showing.hot.iter().filter_map(|hot| Some((&hot.path, hot.whole?))).peekable();
        if whole.peek().is_some() {
            whole.for_each(|(path, revision)| now.kept.show(path, &revision));
            self.keep(&now);
        }
        let version = now.given.as_ref().map_or(0, |given| given.version) + 1;
        let segment = Arc::new(showing.segment);
        let given = Given { of, version, segment: Arc::clone(&segment), told: showing.told };
        self.writer.write_given(&self.id, &given);
        now.given = Some(given);
        Ok(Begun { segment, again: false })
    }

    /// Says that the model knows nothing of what it was given any more: if it was given anything in this segment,
    /// a new one begins.
    pub async fn begins_anew(&self) {
        if self.given().await.is_some() {
            self.compacted(None);
        }
    }

    /// Waits until all is kept that was shown and given until now.
    pub async fn written(&self) {
        self.writer.written().await;
    }

    /// Begins to look, beside the turn, at what changed since the model was told which memories there are.
    pub fn look_for_changes(&self) {
        let mut now = self.now.lock();
        if now.look.is_none() {
            let looking = self.looking(&now);
            now.look = Some(Prefetch::begin(&CancellationToken::new(), |_| looking));
        }
    }

    /// Returns what was seen to have changed, for the tail, and takes it for told; `None` if nothing did, or it
    /// is still looked at, or the model was not told of any memories.
    pub fn changes(&self) -> Option<ContextPart> {
        let mut now = self.now.lock();
        match now.look.take()?.take() {
            Taken::Settled(looked) => self.tell(&mut now, looked?),
            Taken::NotYet(look) => {
                now.look = Some(look);
                None
            }
            Taken::Nothing => None,
        }
    }

    /// Looks now, and returns what [`changes`](Self::changes) does.
    pub async fn changed(&self) -> Option<ContextPart> {
        let looking = self.looking(&self.now.lock());
        let looked = looking.await?;
        self.tell(&mut self.now.lock(), looked)
    }

    fn tell(&self, now: &mut Now, looked: Looked) -> Option<ContextPart> {
        now.take_in(looked.given);
        let of = now.kept.segment;
        let given = now.given.as_mut().filter(|given| given.of == of)?;
        let changes = looked.look.delta(&mut given.told)?;
        given.version += 1;
        self.writer.write_given(&self.id, given);
        Some(changes)
    }

    /// Returns a look at the memories; `None` comes of it if the model was told of none, or they cannot be
    /// listed.
    fn looking(&self, now: &Now) -> impl Future<Output = Option<Looked>> + Send + use<> {
        let known = now.given_of(now.kept.segment).cloned();
        let (reading, memories) = (self.reading(now), self.memories.clone());
        async move {
            let given = reading.await.or(known)?;
            match Look::new(&memories, &given.told).await {
                Ok(look) => Some(Looked { given, look }),
                Err(error) => {
                    tracing::warn!(%error, "what changed cannot be looked at");
                    None
                }
            }
        }
    }

    /// Returns what was given in this segment, by whichever process.
    async fn given(&self) -> Option<Given> {
        let reading = {
            let now = self.now.lock();
            let known = now.given_of(now.kept.segment);
            if known.is_some() {
                return known.cloned();
            }
            self.reading(&now)
        };
        let kept = reading.await;
        let mut now = self.now.lock();
        if let Some(kept) = kept {
            now.take_in(kept);
        }
        now.given_of(now.kept.segment).cloned()
    }

    /// Returns what the state has, if it is newer than what is known here; what cannot be read was not given.
    fn reading(&self, now: &Now) -> impl Future<Output = Option<Given>> + Send + use<> {
        let known = now.given.as_ref().map(|known| (known.of, known.version));
        let (tasks, id) = (Arc::clone(&self.tasks), self.id.clone());
        let layout = self.memories.layout();
        async move {
            let row = tasks.segment(id.as_str()).await.unwrap_or_else(|error| {
                tracing::warn!(conversation = %id, %error, "what was given cannot be read");
                None
            });
            // To read it takes milliseconds where there are many memories.
            let row = row.filter(|row| known < Some((row.segment, row.version)))?;
            Given::read(&row, layout)
        }
    }
}

impl Now {
    fn given_of(&self, segment: u64) -> Option<&Given> {
        self.given.as_ref().filter(|given| given.of == segment)
    }

    /// Takes in what was kept, if it is newer than what is known here; another process may have begun a segment.
    fn take_in(&mut self, kept: Given) {
        if self.given.as_ref().is_none_or(|known| kept.is_newer_than(known)) {
            self.kept.segment = self.kept.segment.max(kept.of);
            self.given = Some(kept);
        }
    }
}

impl Given {
    fn is_newer_than(&self, other: &Self) -> bool {
        (self.of, self.version) > (other.of, other.version)
    }
}

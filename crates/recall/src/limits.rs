//! Limits of a prompt and of corpora, each with its unit in its name and its reason beside it.
//!
//! This crate reads so much of a prompt. Who keeps corpora for a process, as `engine` does, keeps to the others.

use std::time::Duration;

/// The largest corpus that is kept in the state folder, in bytes: hundreds of thousands of entries.
pub const CORPUS_FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Corpora that are kept in the state folder; beyond that those go that nobody used for the longest time.
pub const CORPUS_FILES_MAX: usize = 64;

/// How long a corpus is kept that nobody uses: its project may be gone.
pub const CORPUS_KEPT_FOR: Duration = Duration::from_hours(24 * 30);

/// How much of a corpus changes before it is kept anew, as one part in so many: what is not kept is read again by the
/// next process, which costs less than that.
pub const CORPUS_DRIFT_SHARE: usize = 64;

/// Memories that are taken in before others may use a corpus and before it is kept, where there are many.
pub const CORPUS_BATCH: usize = 2_000;

/// How long after a change a daemon waits before it keeps a corpus: changes come in heaps.
pub const CORPUS_PERSIST_DELAY: Duration = Duration::from_secs(20);

/// How long after the last change a process lets go of corpora that nobody has wanted since: what follows one another
/// is over by then.
pub const CORPUS_TRIM_DELAY: Duration = Duration::from_secs(5);

/// Corpora that a process has at hand: one for each set of roots that somebody sees.
pub const CORPORA_CACHED_MAX: usize = 16;

/// How long a corpus counts as current while nobody tells of a change. Where folders are watched, all is told;
/// elsewhere this bounds how long an edit from outside may go unseen by recall.
pub const CORPUS_AGE_MAX: Duration = Duration::from_mins(1);

/// Characters of a prompt, from its beginning, that decide what is recalled for it.
pub const PROMPT_CHARS_MAX: usize = 8_192;

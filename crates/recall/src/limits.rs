//! Limits of prompts and of stored corpora. The name of each holds its unit.
//!
//! This crate enforces only the length of a prompt. The others are for the process that stores corpora, as `engine`
//! does.

use std::time::Duration;

/// Maximum size of a corpus file in the state folder, in bytes: enough for hundreds of thousands of entries.
pub const CORPUS_FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of corpus files in the state folder; beyond it the least recently used are deleted.
pub const CORPUS_FILES_MAX: usize = 64;

/// Time after which an unused corpus file is deleted: its project may be gone.
pub const CORPUS_KEPT_FOR: Duration = Duration::from_hours(24 * 30);

/// Share of a corpus, as one part in this number, that must change before its file is rewritten. The next process
/// reads the other changes from the memories, which costs less than a rewrite.
pub const CORPUS_DRIFT_SHARE: usize = 64;

/// Number of memories that are indexed before other tasks may use the corpus and before it is saved, in large
/// roots.
pub const CORPUS_BATCH: usize = 2_000;

/// Delay between a change and the save of a corpus by a daemon: changes come in bursts.
pub const CORPUS_PERSIST_DELAY: Duration = Duration::from_secs(20);

/// Idle time after the last change until a process drops corpora that were not used since. Changes of one burst are
/// closer together.
pub const CORPUS_TRIM_DELAY: Duration = Duration::from_secs(5);

/// Maximum number of corpora that a process keeps in memory: one for each set of roots.
pub const CORPORA_CACHED_MAX: usize = 16;

/// Time for which a corpus counts as current without a change event. Watched folders report all changes; elsewhere
/// this bounds how long recall misses an external edit.
pub const CORPUS_AGE_MAX: Duration = Duration::from_mins(1);

/// Characters of a prompt, from its beginning, that recall uses.
pub const PROMPT_CHARS_MAX: usize = 8_192;

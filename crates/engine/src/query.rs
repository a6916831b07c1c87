//! Queries: pages of memories, each with everything that is known of it, for a person who looks around; and plain
//! search.
//!
//! Listing is cheap and done for all; what has to be looked up for each memory (its revision, who
//! changed it last, what screening objects to) is looked up for one page alone.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use memory::change::{Actor, Trust};
use memory::clock::Timestamp;
use memory::command::Warning;
use memory::document::Revision;
use memory::limits::STALE_AFTER;
use memory::path::{MemoryPath, Mount};
use state::PathChange;
use store::{FILES_READ_AT_ONCE, Memories, MemoryEntry, MemoryText, StoreError};

/// In which order memories come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Scope by scope, in byte order of their paths.
    #[default]
    Path,
    /// The last modified first.
    Modified,
    /// The most used first.
    Uses,
    /// The largest first.
    Bytes,
}

/// Where the next page begins: after so many, the last of which was this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCursor {
    offset: usize,
    last: String,
}

/// A text that is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is what the page before ended with")]
pub struct BadCursor;

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.offset, self.last)
    }
}

impl FromStr for PageCursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (passed, last) = text.split_once(':').ok_or(BadCursor)?;
        Ok(Self { offset: passed.parse().map_err(|_| BadCursor)?, last: last.to_owned() })
    }
}

/// Which memories to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only those of this root.
    pub mount: Option<Mount>,
    /// Only those whose path, name or description holds this, in either case.
    pub words: Option<String>,
    /// Only those that are pinned, or are not.
    pub pinned: Option<bool>,
    /// In which order.
    pub order: Order,
    /// Only those after the page before.
    pub after: Option<PageCursor>,
    /// At most so many.
    pub max: usize,
}

/// A memory with everything that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryDetails {
    /// What a listing says.
    pub entry: MemoryEntry,
    /// Its revision; `None` when it is no text, or outgrew the cap.
    pub revision: Option<Revision>,
    /// Who changed it last, as far as history goes.
    pub last_author: Option<Actor>,
    /// The write that its text comes from, as far as history goes.
    pub last_write: Option<LastWrite>,
    /// What screening objects to, in memories that came with a repository.
    pub findings: Arc<[Warning]>,
}

/// The write that a memory's text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWrite {
    /// When it was recorded.
    pub at: Timestamp,
    /// How far the text may be trusted since then.
    pub trust: Trust,
    /// The model that asked for it, if one did and said so.
    pub model: Option<String>,
}

/// How many of the last changes of a memory are searched for the one that wrote its text: those after it gave
/// it another path.
const LAST_CHANGES_MAX: usize = 8;

/// Returns the write that a memory's text of this revision comes from; `None` if history does not have it,
/// since it was written outside and nobody has looked since.
pub async fn last_write(
    memories: &Memories,
    path: &MemoryPath,
    revision: Revision,
) -> Result<Option<LastWrite>, StoreError> {
    let mut last = memories.last_changes(&[path], LAST_CHANGES_MAX).await?;
    Ok(write_of(&last.remove(path).unwrap_or_default(), revision))
}

/// Returns the write that a text comes from, among the last changes of its memory.
fn write_of(changes: &[PathChange], revision: Revision) -> Option<LastWrite> {
    let mut found = None;
    for change in changes {
        if change.after != Some(revision) {
            break;
        }
        found = Some(change);
        if change.before != change.after {
            break;
        }
    }
    let PathChange { at, trust, model, .. } = found?;
    Some(LastWrite { at: *at, trust: *trust, model: model.clone() })
}

/// A page of memories.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPage {
    /// The memories.
    pub memories: Vec<MemoryDetails>,
    /// How many there are on all pages.
    pub total: usize,
    /// Where the next page begins; `None` on the last.
    pub next: Option<PageCursor>,
}

/// Returns one page of memories.
pub async fn list_page(memories: &Memories, wanted: &ListQuery) -> Result<ListPage, StoreError> {
    let under = wanted.mount.map(MemoryPath::Root);
    let mut all = memories.list(under.as_ref()).await?.memories;
    all.retain(|listed| matches(wanted, listed));
    sort(&mut all, wanted.order);
    let total = all.len();
    let first = wanted.after.as_ref().map_or(0, |cursor| page_start(&all, cursor));
    let page: Vec<MemoryEntry> = all.into_iter().skip(first).take(wanted.max).collect();
    let passed = first + page.len();
    let next = page
        .last()
        .filter(|_| passed < total)
        .map(|last| PageCursor { offset: passed, last: last.path.to_string() });
    let mut known = Vec::with_capacity(page.len());
    let paths: Vec<_> = page.iter().map(|listed| &listed.path).collect();
    let mut last = memories.last_changes(&paths, LAST_CHANGES_MAX).await?;
    let reads = memories.read_many(&paths).await;
    let findings = memories.read_warnings(&paths).await;
    for ((listed, read), findings) in page.into_iter().zip(reads).zip(findings) {
        let changes = last.remove(&listed.path).unwrap_or_default();
        known.extend(memory_details(listed, read, &changes, findings)?);
    }
    Ok(ListPage { memories: known, total, next })
}

/// Returns the memories that nobody changed or used for so long that they are worth a look, the oldest first. Pinned ones
/// are kept on purpose.
pub async fn stale_memories(
    memories: &Memories,
    now: Timestamp,
) -> Result<Vec<MemoryEntry>, StoreError> {
    let touched = |listed: &MemoryEntry| {
        listed.usage.last_used_at.map_or(listed.modified_at, |used| used.max(listed.modified_at))
    };
    let is_stale = |listed: &MemoryEntry| {
        let untouched = Duration::try_from(now.duration_since(touched(listed)));
        !listed.pinned && untouched.is_ok_and(|untouched| untouched > STALE_AFTER)
    };
    let mut listed = memories.list(None).await?.memories;
    listed.retain(is_stale);
    listed.sort_by_key(touched);
    Ok(listed)
}

fn matches(wanted: &ListQuery, listed: &MemoryEntry) -> bool {
    let holds = |words: &str| {
        let words = words.to_lowercase();
        let name = listed.name.as_deref().unwrap_or_default();
        [listed.path.to_string().as_str(), name, &listed.description]
            .into_iter()
            .any(|text| text.to_lowercase().contains(&words))
    };
    wanted.pinned.is_none_or(|pinned| listed.pinned == pinned)
        && wanted.words.as_deref().is_none_or(holds)
}

/// Sorts; what is alike stays in the order of paths.
fn sort(all: &mut [MemoryEntry], order: Order) {
    match order {
        Order::Path => {}
        Order::Modified => all.sort_by_key(|listed| Reverse(listed.modified_at)),
        Order::Uses => all.sort_by_key(|listed| Reverse(listed.usage.uses)),
        Order::Bytes => all.sort_by_key(|listed| Reverse(listed.bytes)),
    }
}

/// Returns how many memories were on the pages before. The last of them tells, wherever it is now;
/// when it is gone, their number does.
fn page_start(all: &[MemoryEntry], cursor: &PageCursor) -> usize {
    let last = all.iter().position(|listed| listed.path.to_string() == cursor.last);
    last.map_or(cursor.offset.saturating_sub(1), |last| last + 1)
}

/// Returns what is known of a memory; `None` when it went meanwhile.
fn memory_details(
    listed: MemoryEntry,
    read: Result<MemoryText, StoreError>,
    changes: &[PathChange],
    findings: Arc<[Warning]>,
) -> Result<Option<MemoryDetails>, StoreError> {
    let revision = match read {
        Ok(read) => Some(read.revision),
        Err(StoreError::Refused(refusal))
            if refusal.code() == memory::error_code::MemoryErrorCode::NotFound =>
        {
            return Ok(None);
        }
        Err(StoreError::Refused(_)) => None,
        Err(fault) => return Err(fault),
    };
    let last_author = changes.first().map(|change| change.actor);
    let last_write = revision.and_then(|revision| write_of(changes, revision));
    Ok(Some(MemoryDetails { entry: listed, revision, last_author, last_write, findings }))
}

/// A line that holds what was searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The memory.
    pub path: MemoryPath,
    /// The line, counted from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The lines, memory by memory, in byte order of their paths.
    pub hits: Vec<SearchHit>,
    /// Whether there are more.
    pub is_truncated: bool,
}

/// Searches all memories, or those under a scope or folder, for a text; stops after `max` lines.
/// What is no text, or went meanwhile, is passed over. Searching is not a use.
pub async fn search(
    memories: &Memories,
    text: &str,
    under: Option<&MemoryPath>,
    max: usize,
) -> Result<SearchResult, StoreError> {
    let wanted = text.to_lowercase();
    let mut found = SearchResult::default();
    for part in memories.list(under).await?.memories.chunks(FILES_READ_AT_ONCE) {
        let paths: Vec<_> = part.iter().map(|listed| &listed.path).collect();
        for (path, read) in paths.iter().zip(memories.read_many(&paths).await) {
            let read = match read {
                Ok(read) => read,
                Err(StoreError::Refused(_)) => continue,
                Err(fault) => return Err(fault),
            };
            for (line, text) in matching_lines(&read.text, &wanted) {
                if found.hits.len() == max {
                    found.is_truncated = true;
                    return Ok(found);
                }
                found.hits.push(SearchHit { path: (*path).clone(), line, text: text.to_owned() });
            }
        }
    }
    Ok(found)
}

fn matching_lines<'a>(text: &'a str, wanted: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let numbered = text.lines().enumerate();
    numbered
        .filter(move |(_, line)| line.to_lowercase().contains(wanted))
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use memory::path::{Layout, RelativePath};
    use memory::usage::Usage;

    use super::*;

    #[test]
    fn lines_are_matched_in_either_case() {
        let found: Vec<_> = matching_lines("Tea\ncoffee\ngreen TEA\r\n", "tea").collect();
        assert_eq!(found, [(1, "Tea"), (3, "green TEA")]);
    }

    fn listed(path: &str, bytes: u64, uses: u64) -> MemoryEntry {
        MemoryEntry {
            path: MemoryPath::parse(path, Layout::Scoped).unwrap(),
            bytes,
            modified_at: Timestamp::UNIX_EPOCH,
            description: format!("About {bytes}"),
            is_described: true,
            name: None,
            kind: None,
            pinned: bytes > 2,
            usage: Usage { uses, ..Usage::default() },
        }
    }

    fn three() -> Vec<MemoryEntry> {
        vec![
            listed("/memories/global/a.md", 1, 5),
            listed("/memories/global/b.md", 3, 5),
            listed("/memories/project/c.md", 2, 9),
        ]
    }

    fn names(all: &[MemoryEntry]) -> String {
        all.iter().filter_map(|listed| listed.path.relative()).map(RelativePath::as_str).collect()
    }

    #[test]
    fn what_is_alike_stays_in_the_order_of_paths() {
        fn check(order: Order, expected: &str) {
            let mut all = three();
            sort(&mut all, order);
            assert_eq!(names(&all), expected, "{order:?}");
        }
        check(Order::Path, "a.mdb.mdc.md");
        check(Order::Modified, "a.mdb.mdc.md");
        check(Order::Uses, "c.mda.mdb.md");
        check(Order::Bytes, "b.mdc.mda.md");
    }

    #[test]
    fn words_are_looked_for_in_path_name_and_description() {
        fn check(words: Option<&str>, pinned: Option<bool>, expected: &str) {
            let wanted =
                ListQuery { words: words.map(str::to_owned), pinned, ..ListQuery::default() };
            let mut all = three();
            all.retain(|listed| matches(&wanted, listed));
            assert_eq!(names(&all), expected, "{wanted:?}");
        }
        check(None, None, "a.mdb.mdc.md");
        check(Some("PROJECT/"), None, "c.md");
        check(Some("about 3"), None, "b.md");
        check(Some("nothing"), None, "");
        check(None, Some(true), "b.md");
        check(Some("a.md"), Some(true), "");
    }

    #[test]
    fn a_page_begins_after_the_last_one_of_the_page_before() {
        fn check(cursor: &str, expected: usize) {
            let cursor: PageCursor = cursor.parse().unwrap();
            assert_eq!(page_start(&three(), &cursor), expected, "{cursor}");
        }
        check("2:/memories/global/b.md", 2);
        // One before it was deleted, or came into being.
        check("3:/memories/global/b.md", 2);
        check("1:/memories/global/b.md", 2);
        // It was deleted itself.
        check("2:/memories/global/gone.md", 1);
        check("0:", 0);
        for text in ["", "2", "x:/memories", "-1:/memories"] {
            assert_eq!(text.parse::<PageCursor>(), Err(BadCursor), "{text}");
        }
    }
}

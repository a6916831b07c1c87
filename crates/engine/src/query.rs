//! Queries for people who browse memories: pages of listings with details, and plain text search.
//!
//! Listing is cheap and covers all memories. Details that need a lookup per memory, such as the
//! revision, the last author and screening findings, are read for one page only.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
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
use store::{Memories, MemoryEntry, MemoryText, StoreError};

/// The order of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By scope, then in byte order of paths.
    #[default]
    Path,
    /// Last modified first.
    Modified,
    /// Most used first.
    Uses,
    /// Largest first.
    Bytes,
}

/// A page cursor: offset, and the path of the last item returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCursor {
    offset: usize,
    last: String,
}

/// An error for a text that is not a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor; pass the one that the previous page returned")]
pub struct BadCursor;

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.offset, self.last)
    }
}

impl FromStr for PageCursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (offset, last) = text.split_once(':').ok_or(BadCursor)?;
        Ok(Self { offset: offset.parse().map_err(|_| BadCursor)?, last: last.to_owned() })
    }
}

/// A filter for a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only memories of this root.
    pub mount: Option<Mount>,
    /// Only memories whose path, name or description contains this text, ignoring case.
    pub words: Option<String>,
    /// Only pinned memories, or only others.
    pub pinned: Option<bool>,
    /// The order.
    pub order: Order,
    /// Only memories behind the previous page.
    pub after: Option<PageCursor>,
    /// Maximum number of memories.
    pub max: usize,
}

/// A memory with its details.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryDetails {
    /// The entry of the listing.
    pub entry: MemoryEntry,
    /// Its revision; `None` if it is not text, or too large.
    pub revision: Option<Revision>,
    /// The actor of the last change in history, if any.
    pub last_author: Option<Actor>,
    /// The write that its text comes from, if history has it.
    pub last_write: Option<LastWrite>,
    /// Screening findings, for memories that came with a repository.
    pub findings: Arc<[Warning]>,
}

/// The write that a memory's text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWrite {
    /// Time at which it was recorded.
    pub at: Timestamp,
    /// The trust in the text since then.
    pub trust: Trust,
    /// The model that requested it, if known.
    pub model: Option<String>,
}

/// Number of recent changes of a memory that are searched for the write of its text. Later changes
/// with the same text are renames.
const LAST_CHANGES_MAX: usize = 8;

/// Returns the write that a memory's text of this revision comes from. `None` if history does not
/// have it, for example an external edit that was not detected yet.
pub async fn last_write(
    memories: &Memories,
    path: &MemoryPath,
    revision: Revision,
) -> Result<Option<LastWrite>, StoreError> {
    let mut last = memories.last_changes(&[path], LAST_CHANGES_MAX).await?;
    Ok(write_of(&last.remove(path).unwrap_or_default(), revision))
}

/// Returns the writes that the texts of these revisions come from, as far as history has them.
pub(crate) async fn last_writes(
    memories: &Memories,
    texts: &[(MemoryPath, Revision)],
) -> Result<HashMap<MemoryPath, LastWrite>, StoreError> {
    let paths: Vec<&MemoryPath> = texts.iter().map(|(path, _)| path).collect();
    let changes = memories.last_changes(&paths, LAST_CHANGES_MAX).await?;
    let writes = texts.iter().filter_map(|(path, revision)| {
        Some((path.clone(), write_of(changes.get(path)?, *revision)?))
    });
    Ok(writes.collect())
}

/// Returns the write that a text comes from, among the recent changes of its memory.
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
    /// Number of memories on all pages.
    pub total: usize,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<PageCursor>,
}

/// Returns one page of memories.
pub async fn list_page(memories: &Memories, query: &ListQuery) -> Result<ListPage, StoreError> {
    let under = query.mount.map(MemoryPath::Root);
    let mut all = memories.list(under.as_ref()).await?.memories;
    all.retain(|listed| matches(query, listed));
    sort(&mut all, query.order);
    let total = all.len();
    let first = query.after.as_ref().map_or(0, |cursor| page_start(&all, cursor));
    let page: Vec<MemoryEntry> = all.into_iter().skip(first).take(query.max).collect();
    let offset = first + page.len();
    let next = page
        .last()
        .filter(|_| offset < total)
        .map(|last| PageCursor { offset, last: last.path.to_string() });
    let mut details = Vec::with_capacity(page.len());
    let paths: Vec<_> = page.iter().map(|listed| &listed.path).collect();
    let mut last = memories.last_changes(&paths, LAST_CHANGES_MAX).await?;
    let reads = memories.read_many(&paths).await;
    let findings = memories.read_warnings(&paths).await;
    for ((listed, read), findings) in page.into_iter().zip(reads).zip(findings) {
        let changes = last.remove(&listed.path).unwrap_or_default();
        details.extend(memory_details(listed, read, &changes, findings)?);
    }
    Ok(ListPage { memories: details, total, next })
}

/// Returns the memories that were neither changed nor used for [`STALE_AFTER`], oldest first.
/// Pinned memories are never stale.
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

fn matches(query: &ListQuery, listed: &MemoryEntry) -> bool {
    let holds = |words: &str| {
        let words = words.to_lowercase();
        let name = listed.name.as_deref().unwrap_or_default();
        [listed.path.to_string().as_str(), name, &listed.description]
            .into_iter()
            .any(|text| text.to_lowercase().contains(&words))
    };
    query.pinned.is_none_or(|pinned| listed.pinned == pinned)
        && query.words.as_deref().is_none_or(holds)
}

/// Sorts by `order`; equal memories stay in path order.
fn sort(all: &mut [MemoryEntry], order: Order) {
    match order {
        Order::Path => {}
        Order::Modified => all.sort_by_key(|listed| Reverse(listed.modified_at)),
        Order::Uses => all.sort_by_key(|listed| Reverse(listed.usage.uses)),
        Order::Bytes => all.sort_by_key(|listed| Reverse(listed.bytes)),
    }
}

/// Returns the offset of the page after a cursor. Uses the position of the cursor's item, or its
/// offset if the item was deleted.
fn page_start(all: &[MemoryEntry], cursor: &PageCursor) -> usize {
    let last = all.iter().position(|listed| listed.path.to_string() == cursor.last);
    last.map_or(cursor.offset.saturating_sub(1), |last| last + 1)
}

/// Returns the details of a memory; `None` if it was deleted in the meantime.
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

/// A line that contains the searched text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The memory.
    pub path: MemoryPath,
    /// Line number, counted from 1.
    pub line: usize,
    /// Text of the line.
    pub text: String,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// Matching lines by memory, in byte order of paths.
    pub hits: Vec<SearchHit>,
    /// Whether the result was cut at the maximum.
    pub is_truncated: bool,
}

/// Searches all memories, or those below `under`, for a text; stops after `max` lines. Files that
/// are not text or were deleted in the meantime are skipped. A search does not count as a use.
pub async fn search(
    memories: &Memories,
    text: &str,
    under: Option<&MemoryPath>,
    max: usize,
) -> Result<SearchResult, StoreError> {
    let needle = text.to_lowercase();
    let (mut found, mut failure) = (SearchResult::default(), None);
    let search_in = |path: &MemoryPath, text: Result<&str, StoreError>| {
        let text = match text {
            Ok(text) if may_match(text, &needle) => text,
            Ok(_) | Err(StoreError::Refused(_)) => return ControlFlow::Continue(()),
            Err(fault) => {
                failure = Some(fault);
                return ControlFlow::Break(());
            }
        };
        for (line, text) in matching_lines(text, &needle) {
            if found.hits.len() == max {
                found.is_truncated = true;
                return ControlFlow::Break(());
            }
            found.hits.push(SearchHit { path: path.clone(), line, text: text.to_owned() });
        }
        ControlFlow::Continue(())
    };
    memories.visit_texts(under, search_in).await?;
    match failure {
        Some(fault) => Err(fault),
        None => Ok(found),
    }
}

/// Checks quickly whether a text may have a line with the needle, which is in lower case.
fn may_match(text: &str, needle: &str) -> bool {
    // The lower case of other characters depends on more than one byte.
    !text.is_ascii() || text.to_ascii_lowercase().contains(needle)
}

fn matching_lines<'a>(text: &'a str, needle: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let numbered = text.lines().enumerate();
    numbered
        .filter(move |(_, line)| line.to_lowercase().contains(needle))
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
            rules: memory::document::Rules::None,
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
    fn equal_memories_stay_in_path_order() {
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
    fn words_match_path_name_and_description() {
        fn check(words: Option<&str>, pinned: Option<bool>, expected: &str) {
            let query =
                ListQuery { words: words.map(str::to_owned), pinned, ..ListQuery::default() };
            let mut all = three();
            all.retain(|listed| matches(&query, listed));
            assert_eq!(names(&all), expected, "{query:?}");
        }
        check(None, None, "a.mdb.mdc.md");
        check(Some("PROJECT/"), None, "c.md");
        check(Some("about 3"), None, "b.md");
        check(Some("nothing"), None, "");
        check(None, Some(true), "b.md");
        check(Some("a.md"), Some(true), "");
    }

    #[test]
    fn a_page_starts_behind_the_last_item_of_the_previous_page() {
        fn check(cursor: &str, expected: usize) {
            let cursor: PageCursor = cursor.parse().unwrap();
            assert_eq!(page_start(&three(), &cursor), expected, "{cursor}");
        }
        check("2:/memories/global/b.md", 2);
        // An item before it was deleted, or added.
        check("3:/memories/global/b.md", 2);
        check("1:/memories/global/b.md", 2);
        // The item itself was deleted.
        check("2:/memories/global/gone.md", 1);
        check("0:", 0);
        for text in ["", "2", "x:/memories", "-1:/memories"] {
            assert_eq!(text.parse::<PageCursor>(), Err(BadCursor), "{text}");
        }
    }
}

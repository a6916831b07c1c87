//! Plain search: the lines of memories that hold a text, in either case.

use memory::path::MemoryPath;
use store::{Memories, StoreError};

/// A line that holds what was searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The memory.
    pub path: MemoryPath,
    /// The line, counted from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The lines, memory by memory, in byte order of their paths.
    pub hits: Vec<Hit>,
    /// Whether there are more.
    pub more: bool,
}

/// Searches all memories, or those under a scope or folder, for a text; stops after `max` lines.
/// What is no text, or went meanwhile, is passed over. Searching is not a use.
pub async fn search(
    memories: &Memories,
    text: &str,
    under: Option<&MemoryPath>,
    max: usize,
) -> Result<Hits, StoreError> {
    let wanted = text.to_lowercase();
    let mut found = Hits::default();
    for listed in memories.list(under).await?.memories {
        let read = match memories.read(&listed.path).await {
            Ok(read) => read,
            Err(StoreError::Refused(_)) => continue,
            Err(fault) => return Err(fault),
        };
        for (line, text) in matching(&read.text, &wanted) {
            if found.hits.len() == max {
                found.more = true;
                return Ok(found);
            }
            found.hits.push(Hit { path: listed.path.clone(), line, text: text.to_owned() });
        }
    }
    Ok(found)
}

fn matching<'a>(text: &'a str, wanted: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let numbered = text.lines().enumerate();
    numbered
        .filter(move |(_, line)| line.to_lowercase().contains(wanted))
        .map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_matched_in_either_case() {
        let found: Vec<_> = matching("Tea\ncoffee\ngreen TEA\r\n", "tea").collect();
        assert_eq!(found, [(1, "Tea"), (3, "green TEA")]);
    }
}

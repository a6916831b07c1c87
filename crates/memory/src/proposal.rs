//! Proposals: changes that wait for a person's decision, as values.
//!
//! A curator that is not certain proposes a change instead of making it. A proposal names entries by their whole text.
//! So it still applies after other entries of the same memory changed, and is stale when its own entry changed.

use crate::change::ParseWordError;
use crate::document::Revision;
use crate::document::{Entry, append_entry, entries, replace_entry, without_entry};
use crate::path::MemoryPath;
use std::fmt;

/// The reason why a change is proposed.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = ParseWordError, parse_err_fn = ParseWordError::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProposalKind {
    /// Two entries may state the same fact.
    Repetition,
    /// Two entries may contradict each other.
    Contradiction,
    /// A newer entry may replace the value of an older one.
    Update,
    /// An entry may have expired, by its date.
    Expiry,
    /// An entry may belong to another scope or memory.
    Misplacement,
    /// An entry may no longer be true.
    Removal,
    /// A memory waits for a person's review: an agent wrote it after reading unreviewed text, or a background review
    /// wrote it.
    Review,
}

/// The status of a proposal.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = ParseWordError, parse_err_fn = ParseWordError::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProposalStatus {
    /// The proposal waits for a decision.
    Waiting,
    /// A person accepted it, and the change was made.
    Accepted,
    /// A person rejected it.
    Rejected,
}

/// The number of a proposal on this host. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProposalId(pub i64);

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A change that waits for a person's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The kind of reason.
    pub kind: ProposalKind,
    /// The reason, in one sentence for people. It may quote the entries.
    pub reason: String,
    /// The probability that the proposal is right, in percent.
    pub score: u8,
    /// The entries to change, all or none; empty only if the proposal asks for a review.
    pub changes: Vec<EntryChange>,
    /// Entries that are not changed but justify the change. The proposal is stale when one of them is gone: otherwise
    /// it could remove the last entry with a fact.
    pub relies_on: Vec<EntryReference>,
    /// The memory that a person is asked to read and accept.
    pub review: Option<ReviewTarget>,
}

/// A memory that waits for a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewTarget {
    /// The path of the memory.
    pub path: MemoryPath,
    /// The revision to review. If the memory has another one, the proposal is stale.
    pub revision: Revision,
}

/// An entry that a proposal relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryReference {
    /// The memory that holds the entry.
    pub path: MemoryPath,
    /// The whole text of the entry, as in [`EntryChange::old`].
    pub text: String,
}

/// One entry that a proposal would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    /// The memory that holds the entry.
    pub path: MemoryPath,
    /// The whole text of the entry without the bullet and trailing white space; `None` to add `new`.
    pub old: Option<String>,
    /// The new text, without the bullet; `None` to remove the entry.
    pub new: Option<String>,
}

/// The reason why a proposal no longer applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaleProposal {
    /// No entry of the memory has the text.
    #[error("the entry was changed or removed since")]
    EntryGone,
    /// Several entries of the memory have the text.
    #[error("the memory has the entry more than once")]
    Ambiguous,
    /// The new text would not be a single entry in this memory.
    #[error("the text cannot be an entry of this memory")]
    NotAnEntry,
}

impl EntryReference {
    /// Checks that the memory with this text still has the entry.
    pub fn check(&self, text: &str) -> Result<(), StaleProposal> {
        let stays = entries(text).iter().any(|entry| entry.full_text(text) == self.text);
        if stays { Ok(()) } else { Err(StaleProposal::EntryGone) }
    }
}

impl EntryChange {
    /// Applies the change to a memory's text. `text` is empty for a memory that does not exist; a result without
    /// entries means that the memory is to be deleted.
    pub fn apply(&self, text: &str) -> Result<String, StaleProposal> {
        let Some(old) = &self.old else {
            return append_entry(text, self.new.as_deref().unwrap_or_default())
                .ok_or(StaleProposal::NotAnEntry);
        };
        let entry = find_entry(text, old)?;
        match &self.new {
            None => Ok(without_entry(text, &entry)),
            Some(new) => replace_entry(text, &entry, new).ok_or(StaleProposal::NotAnEntry),
        }
    }
}

fn find_entry(text: &str, whole: &str) -> Result<Entry, StaleProposal> {
    let mut matches = entries(text).into_iter().filter(|entry| entry.full_text(text) == whole);
    match (matches.next(), matches.next()) {
        (Some(entry), None) => Ok(entry),
        (None, _) => Err(StaleProposal::EntryGone),
        (Some(_), Some(_)) => Err(StaleProposal::Ambiguous),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Layout;

    fn change(old: Option<&str>, new: Option<&str>) -> EntryChange {
        let path = MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap();
        EntryChange { path, old: old.map(str::to_owned), new: new.map(str::to_owned) }
    }

    #[test]
    fn an_entry_is_found_by_its_text_at_any_position() {
        let text = "---\nname: a\n---\n\n- one\n- two\n  lines\n\n3. three\n";
        for (old, new, expected) in [
            (Some("two\n  lines"), None, "---\nname: a\n---\n\n- one\n\n3. three\n"),
            (
                Some("one"),
                Some("1\nx"),
                "---\nname: a\n---\n\n- 1\n  x\n- two\n  lines\n\n3. three\n",
            ),
            (
                Some("three"),
                Some("drei"),
                "---\nname: a\n---\n\n- one\n- two\n  lines\n\n3. drei\n",
            ),
            (
                None,
                Some("four"),
                "---\nname: a\n---\n\n- one\n- two\n  lines\n\n3. three\n- four\n",
            ),
        ] {
            assert_eq!(change(old, new).apply(text).as_deref(), Ok(expected), "{old:?} {new:?}");
        }
        let crlf = "- one\r\n- two\r\n";
        assert_eq!(
            change(Some("one"), Some("a\nb")).apply(crlf).unwrap(),
            "- a\r\n  b\r\n- two\r\n"
        );
    }

    #[test]
    fn a_proposal_about_another_text_is_stale() {
        for (text, old, new, expected) in [
            ("- one more\n", Some("one"), None, StaleProposal::EntryGone),
            ("- one\n\n## b\n\n- one\n", Some("one"), None, StaleProposal::Ambiguous),
        ] {
            let result = change(old, new).apply(text);
            assert_eq!(result, Err(expected), "{text:?}");
        }
    }
}

//! Proposals: changes that only a person may decide on, as values.
//!
//! A curator that is not certain changes nothing and proposes instead. A proposal names entries by all of their text,
//! so it still applies after other entries of the same memory changed, and is stale when its own entry changed.

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
    /// Two entries may say the same.
    Repetition,
    /// Two entries may not both hold.
    Contradiction,
    /// A newer entry may give another value for an older one.
    Update,
    /// An entry may have ended by its date.
    Expiry,
    /// An entry may belong into another scope or memory.
    Misplacement,
    /// An entry may no longer hold.
    Removal,
    /// A memory waits for a person: an agent wrote it after it had read text that nobody here reviewed, or a background
    /// review wrote it.
    Review,
}

/// How far a proposal is.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = ParseWordError, parse_err_fn = ParseWordError::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProposalStatus {
    /// A person is to decide.
    Waiting,
    /// A person agreed, and the change was made.
    Accepted,
    /// A person said no.
    Rejected,
}

/// The number of a proposal on this host. Never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProposalId(pub i64);

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A change that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The kind of reason.
    pub kind: ProposalKind,
    /// Why, in one sentence for people. It may quote the entries.
    pub reason: String,
    /// How likely it is right, in percent.
    pub score: u8,
    /// The entries to change, together or not at all; empty only if it asks for a review.
    pub changes: Vec<EntryChange>,
    /// The entries, in their whole text, that stay and make the change right. A proposal is stale when one is gone: the
    /// entry that it would remove may be the last one that says so.
    pub relies_on: Vec<EntryReference>,
    /// The memory that a person is asked to read, to answer for it as it is.
    pub review: Option<ReviewTarget>,
}

/// A memory that waits for a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewTarget {
    /// Where it is.
    pub path: MemoryPath,
    /// Its revision. With another one the proposal is stale.
    pub revision: Revision,
}

/// An entry that a proposal relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryReference {
    /// Its memory.
    pub path: MemoryPath,
    /// All of its text, as [`EntryChange::old`].
    pub text: String,
}

/// One entry that a proposal would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryChange {
    /// Its memory.
    pub path: MemoryPath,
    /// All of its text without the bullet and the white space at its end; `None` if `new` is to be added.
    pub old: Option<String>,
    /// The text that it gets, without the bullet; `None` if it is to be removed.
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
    /// The memory would have other entries than it should: the new text cannot be one entry there.
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
    /// Returns the memory's text with the change. The text is empty for a memory that does not exist; a result without
    /// entries means that the memory goes.
    pub fn apply(&self, text: &str) -> Result<String, StaleProposal> {
        let Some(old) = &self.old else {
            return append_entry(text, self.new.as_deref().unwrap_or_default())
                .ok_or(StaleProposal::NotAnEntry);
        };
        let found = find_entry(text, old)?;
        match &self.new {
            None => Ok(without_entry(text, &found)),
            Some(new) => replace_entry(text, &found, new).ok_or(StaleProposal::NotAnEntry),
        }
    }
}

fn find_entry(text: &str, whole: &str) -> Result<Entry, StaleProposal> {
    let mut found = entries(text).into_iter().filter(|entry| entry.full_text(text) == whole);
    match (found.next(), found.next()) {
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
    fn an_entry_is_found_by_its_text_wherever_it_stands() {
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
            let told = change(old, new).apply(text);
            assert_eq!(told, Err(expected), "{text:?}");
        }
    }
}

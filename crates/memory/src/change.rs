//! Changes of memories as recorded in history: the kind, the files, the provenance and the trust; and unified diffs.
//!
//! A change is recorded before it is acknowledged, and never altered afterwards. The hot set, dreams and reviews rely
//! on its provenance, so every writer states it in full. The store records changes; this module only defines them.

use std::fmt;

use imara_diff::{
    Algorithm, Diff, InternedInput, Interner, Token, UnifiedDiffConfig, UnifiedDiffPrinter,
};
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

use crate::clock::Timestamp;
use crate::document::Revision;
use crate::path::RelativePath;

/// The number of a change in this host's history. Later changes have higher numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChangeId(pub i64);

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The identity of a state database: a random number. Change numbers of two databases say nothing about each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatabaseId(pub u64);

impl DatabaseId {
    /// Stands for writes that no database records.
    pub const NONE: Self = Self(0);

    /// Returns the identity of what the database records about one place. Two places may be one folder, under two
    /// addresses; then each has changes of its own.
    #[must_use]
    pub fn at_place(self, place: &str) -> Self {
        let digest = Revision::digest(format!("{:016x} {place}", self.0).as_bytes()).to_string();
        let digits = digest.get(..16).expect("a digest has 64 digits");
        Self(u64::from_str_radix(digits, 16).expect("they are hex digits"))
    }
}

/// The key of a physical root in the state.
///
/// Two worktrees of one repository have the same `identity`, so they share pins and usage. They have two `place`s,
/// because their files differ, and so do their histories.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RootKey {
    /// The owner of the memories: `global`, `project:<key>`, `workspace:<id>`, `flat:<key>`. Never a path.
    pub identity: String,
    /// The copy of the memories: a digest of the root's real path.
    pub place: String,
}

/// A word that is not in a closed set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown word `{0}`")]
pub struct ParseWordError(pub String);

impl ParseWordError {
    pub(crate) fn of(word: &str) -> Self {
        Self(word.to_owned())
    }
}

/// The author of a change.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = ParseWordError, parse_err_fn = ParseWordError::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Actor {
    /// A person: command line, page, their own save.
    Person,
    /// An agent through the memory tool.
    Agent,
    /// A remember or forget task.
    Task,
    /// A background review or harvest.
    Review,
    /// A dream.
    Dream,
    /// An external editor: a text editor, git, a script.
    Outside,
}

/// The trust of a text, lowest first. Merged text has the lowest trust of its sources.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = ParseWordError, parse_err_fn = ParseWordError::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// The text was found on disk; its author is unknown.
    Outside,
    /// The text came with an import from another product.
    Imported,
    /// A background agent wrote it, without a request.
    Background,
    /// An agent wrote it in front of its user.
    Agent,
    /// A person wrote it.
    Person,
}

/// The kind of a change.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = ParseWordError, parse_err_fn = ParseWordError::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeKind {
    /// A new memory.
    Create,
    /// A replacement or insertion.
    Edit,
    /// A whole-file write by a person or a program.
    Save,
    /// A removal of a memory or folder.
    Delete,
    /// A move of a memory or folder to another path.
    Rename,
    /// A set of edits, committed as one.
    Draft,
    /// An import of memories from another product.
    Import,
    /// An undo of an earlier change.
    Undo,
    /// A proposal that a person accepted.
    Proposal,
    /// A person's acceptance of an unreviewed text. No byte changed.
    Accept,
    /// An external edit that Lukasa found.
    Outside,
}

/// The origin of a change: its author, and the door through which it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The author.
    pub actor: Actor,
    /// The trust of the new text.
    pub trust: Trust,
    /// The door: `mcp`, `cli`, `import:claude-code`, `background_review`, ….
    pub origin: String,
    /// The name of the calling program, as it sent it.
    pub client: Option<String>,
    /// The session of the host.
    pub session: Option<String>,
    /// The task that the change belongs to; a task is undone as one.
    pub task: Option<String>,
    /// The id of the model's tool call.
    pub tool_call: Option<String>,
    /// The model that requested the change.
    pub model: Option<String>,
    /// The reason for the change, for people: a review names the turns that it read, with excerpts.
    pub note: Option<String>,
}

impl Provenance {
    /// Returns the provenance of a person at the command line or page called `origin`.
    pub fn person(origin: &str) -> Self {
        Self::new(Actor::Person, Trust::Person, origin)
    }

    /// Returns the provenance of an agent that used the door `origin`.
    pub fn agent(origin: &str) -> Self {
        Self::new(Actor::Agent, Trust::Agent, origin)
    }

    /// Returns the provenance of an external edit.
    pub fn outside() -> Self {
        Self::new(Actor::Outside, Trust::Outside, "outside")
    }

    /// Returns a provenance with only an actor, a trust and a door.
    pub fn new(actor: Actor, trust: Trust, origin: &str) -> Self {
        Self {
            actor,
            trust,
            origin: origin.to_owned(),
            client: None,
            session: None,
            task: None,
            tool_call: None,
            model: None,
            note: None,
        }
    }
}

/// The effect of a change on one memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The root of the memory.
    pub root: RootKey,
    /// The path before the change; for a new memory, the path after it.
    pub path: RelativePath,
    /// The path after the change, if the memory was renamed.
    pub moved_to: Option<RelativePath>,
    /// The revision before; `None` if the memory did not exist.
    pub before: Option<Revision>,
    /// The revision after; `None` if the memory was removed.
    pub after: Option<Revision>,
    /// The trust of the new text; for a removal, of the old text.
    pub trust: Trust,
}

/// A folder that a delete or a rename affected as a whole, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderChange {
    /// The root of the folder.
    pub root: RootKey,
    /// The path before the change.
    pub path: RelativePath,
    /// The path after the change; `None` if the folder was deleted.
    pub moved_to: Option<RelativePath>,
}

/// A recorded change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryChange {
    /// The number of the change.
    pub id: ChangeId,
    /// The time of recording.
    pub at: Timestamp,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The provenance of the change.
    pub provenance: Provenance,
    /// The change that this one undoes, if it is an undo.
    pub undoes: Option<ChangeId>,
    /// The folder that was affected as a whole, if any.
    pub folder: Option<FolderChange>,
    /// The effects on each memory, in the order in which they happened.
    pub files: Vec<FileChange>,
}

/// Returns a unified diff of two texts with three lines of context, `""` when they are equal.
///
/// `before` and `after` name the two sides in the header.
pub fn unified_diff(before: (&str, &str), after: (&str, &str)) -> String {
    if before.1 == after.1 {
        return String::new();
    }
    let input = InternedInput::new(before.1, after.1);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let lines = DiffLinePrinter(&input.interner);
    let hunks = diff.unified_diff(&lines, UnifiedDiffConfig::default(), &input);
    format!("--- {}\n+++ {}\n{hunks}", before.0, after.0)
}

/// A printer of unified diffs in the format of `diff -u`.
struct DiffLinePrinter<'a>(&'a Interner<&'a str>);

impl DiffLinePrinter<'_> {
    fn write(&self, mut out: impl fmt::Write, sign: char, line: Token) -> fmt::Result {
        let line = self.0[line];
        match line.strip_suffix('\n') {
            Some(line) => writeln!(out, "{sign}{line}"),
            None => writeln!(out, "{sign}{line}\n\\ No newline at end of file"),
        }
    }
}

impl UnifiedDiffPrinter for DiffLinePrinter<'_> {
    fn display_header(
        &self,
        mut out: impl fmt::Write,
        before: u32,
        after: u32,
        removed: u32,
        added: u32,
    ) -> fmt::Result {
        writeln!(out, "@@ -{} +{} @@", range(before, removed), range(after, added))
    }

    fn display_context_token(&self, out: impl fmt::Write, line: Token) -> fmt::Result {
        self.write(out, ' ', line)
    }

    fn display_hunk(
        &self,
        mut out: impl fmt::Write,
        before: &[Token],
        after: &[Token],
    ) -> fmt::Result {
        before.iter().try_for_each(|&line| self.write(&mut out, '-', line))?;
        after.iter().try_for_each(|&line| self.write(&mut out, '+', line))
    }
}

/// Formats a line range of a hunk header; `start` is the index of the first line, from 0.
fn range(start: u32, count: u32) -> String {
    match count {
        // An empty range is named by the line before it.
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{count}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_parses_back_to_its_variant() {
        for &actor in Actor::VARIANTS {
            assert_eq!(actor.as_ref().parse(), Ok(actor));
        }
        for &trust in Trust::VARIANTS {
            assert_eq!(trust.as_ref().parse(), Ok(trust));
        }
        for &kind in ChangeKind::VARIANTS {
            assert_eq!(kind.as_ref().parse(), Ok(kind));
        }
        assert_eq!("robot".parse::<Actor>(), Err(ParseWordError("robot".to_owned())));
    }

    #[test]
    fn merged_text_has_the_lowest_trust() {
        assert_eq!(Trust::Person.min(Trust::Agent), Trust::Agent);
        assert_eq!(Trust::Imported.min(Trust::Outside), Trust::Outside);
    }

    #[test]
    fn equal_texts_have_no_diff() {
        assert_eq!(unified_diff(("a", "x\n"), ("b", "x\n")), "");
        insta::assert_snapshot!(unified_diff(("a", "x\ny\n"), ("b", "x\nz\n")), @r"
        --- a
        +++ b
        @@ -1,2 +1,2 @@
         x
        -y
        +z
        ");
    }

    #[test]
    fn empty_texts_and_missing_final_newlines_are_marked() {
        insta::assert_snapshot!(unified_diff(("a", ""), ("b", "x\ny")), @r"
        --- a
        +++ b
        @@ -0,0 +1,2 @@
        +x
        +y
        \ No newline at end of file
        ");
        insta::assert_snapshot!(unified_diff(("a", "x"), ("b", "x\n")), @r"
        --- a
        +++ b
        @@ -1 +1 @@
        -x
        \ No newline at end of file
        +x
        ");
    }
}

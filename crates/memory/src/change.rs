//! What a change says about itself: what was done, to what, by whom, and how far to trust it.
//!
//! A change is recorded before it is acknowledged and never altered afterwards. Later features
//! (hot set, dream, review) rely on its provenance, so every writer states it in full.

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

/// The physical root that a change happened in, and whose memories these are.
///
/// Two worktrees of one repository have one `identity` (they share pins and usage) and two
/// `place`s (their files differ, so their histories do).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RootKey {
    /// Whose memories: `global`, `project:<key>`, `workspace:<id>`, `flat:<key>`. Never a path.
    pub identity: String,
    /// Which copy of them: a digest of the root's real path.
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

/// Who made a change.
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
    /// Somebody who did not ask Lukasa: an editor, git, a script.
    Outside,
}

/// How far a text may be trusted, least first. Merged text has the lowest trust of its sources.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[strum(parse_err_ty = ParseWordError, parse_err_fn = ParseWordError::of)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// It was found on disk; nobody known wrote it.
    Outside,
    /// It came with an import from another product.
    Imported,
    /// A mini-agent wrote it without being asked by anybody.
    Background,
    /// An agent wrote it in front of its user.
    Agent,
    /// A person wrote it.
    Person,
}

/// What was done.
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
    /// A memory or folder was removed.
    Delete,
    /// A memory or folder got another path.
    Rename,
    /// A set of edits, committed as one.
    Draft,
    /// Memories of another product were taken over.
    Import,
    /// An earlier change was taken back.
    Undo,
    /// A person accepted a proposal.
    Proposal,
    /// A person accepted a text as it is. No byte changed.
    Accept,
    /// A difference that Lukasa found and did not make.
    Outside,
}

/// Where a change came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Who made it.
    pub actor: Actor,
    /// How far its text may be trusted.
    pub trust: Trust,
    /// By which way it came in: `mcp`, `cli`, `import:claude-code`, `background_review`, ….
    pub origin: String,
    /// The program that called, as it named itself.
    pub client: Option<String>,
    /// The host's session.
    pub session: Option<String>,
    /// The task that it belongs to; a task is undone as one.
    pub task: Option<String>,
    /// The model's tool call.
    pub tool_call: Option<String>,
    /// The model that asked for it.
    pub model: Option<String>,
    /// What it goes back to, for people: a review names the turns that it read, and what was said in them.
    pub note: Option<String>,
}

impl Provenance {
    /// Returns the provenance of a person at the command line or page called `origin`.
    pub fn person(origin: &str) -> Self {
        Self::new(Actor::Person, Trust::Person, origin)
    }

    /// Returns the provenance of an agent that came in by `origin`.
    pub fn agent(origin: &str) -> Self {
        Self::new(Actor::Agent, Trust::Agent, origin)
    }

    /// Returns the provenance of a difference found on disk.
    pub fn outside() -> Self {
        Self::new(Actor::Outside, Trust::Outside, "outside")
    }

    /// Returns a provenance that names only its actor, its trust and its way in.
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

/// What a change did to one memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The root it lies in.
    pub root: RootKey,
    /// Its path before, or after if it was not there before.
    pub path: RelativePath,
    /// Its path after, if it was renamed.
    pub moved_to: Option<RelativePath>,
    /// Its bytes before; `None` if it was not there.
    pub before: Option<Revision>,
    /// Its bytes after; `None` if it is gone.
    pub after: Option<Revision>,
    /// The trust of the text that is there afterwards, or was there before a removal.
    pub trust: Trust,
}

/// The folder that a delete or a rename took as a whole, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderChange {
    /// The root it lies in.
    pub root: RootKey,
    /// Its path before.
    pub path: RelativePath,
    /// Its path after; `None` if it is gone.
    pub moved_to: Option<RelativePath>,
}

/// One step of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryChange {
    /// Its number.
    pub id: ChangeId,
    /// When it was recorded.
    pub at: Timestamp,
    /// What was done.
    pub kind: ChangeKind,
    /// By whom.
    pub provenance: Provenance,
    /// The change that this one takes back, if it is an undo.
    pub undoes: Option<ChangeId>,
    /// A folder taken as a whole, if one was.
    pub folder: Option<FolderChange>,
    /// What became of each memory; in the order in which it happened.
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

/// How the lines of a unified diff read, as `diff -u` writes them.
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

/// Returns how a header names lines, of which the first has index `start`.
fn range(start: u32, count: u32) -> String {
    match count {
        // Nothing stands after the line that is named.
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{count}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_as_itself() {
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
    fn what_is_empty_or_lacks_its_last_line_end_says_so() {
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

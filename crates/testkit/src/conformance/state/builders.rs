//! Builders of changes, so that a test shows only what matters to it.

use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, FileChange, FolderChange, Provenance, RootKey, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use memory::proposal::ProposalId;
use state::{NewChange, NewFileChange, UseEvent};

/// The identity of all roots unless a test sets another.
pub(super) const IDENTITY: &str = "project:lukasa";

/// Parses a valid path.
pub fn path(text: &str) -> RelativePath {
    RelativePath::parse(text).unwrap()
}

/// Returns the key of the worktree `place` of the project.
pub fn root(place: &str) -> RootKey {
    RootKey { identity: IDENTITY.to_owned(), place: place.to_owned() }
}

/// Returns a time this number of seconds and one nanosecond after the start of 2026.
pub fn time(seconds: i64) -> Timestamp {
    Timestamp::new(1_767_225_600 + seconds, 1).unwrap()
}

/// A builder of a change.
#[derive(Clone, Debug)]
pub struct ChangeBuilder(pub NewChange);

impl ChangeBuilder {
    /// Sets the time of the change.
    #[must_use]
    pub fn at(mut self, seconds: i64) -> Self {
        self.0.at = time(seconds);
        self
    }

    /// Sets the kind of the change.
    #[must_use]
    pub fn kind(mut self, kind: ChangeKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Sets the task of the change.
    #[must_use]
    pub fn task(mut self, task: &str) -> Self {
        self.0.provenance.task = Some(task.to_owned());
        self
    }

    /// Sets the host's session of the change.
    #[must_use]
    pub fn session(mut self, session: &str) -> Self {
        self.0.provenance.session = Some(session.to_owned());
        self
    }

    /// Sets the number of the task attempt.
    #[must_use]
    pub fn attempt(mut self, number: u32) -> Self {
        self.0.attempt = Some(number);
        self
    }

    /// Sets the proposal that it accepts.
    #[must_use]
    pub fn accepts(mut self, id: ProposalId) -> Self {
        self.0.accepts = Some(id);
        self.kind(ChangeKind::Proposal)
    }

    /// Sets the change that it undoes.
    #[must_use]
    pub fn undoes(mut self, id: ChangeId) -> Self {
        self.0.undoes = Some(id);
        self.kind(ChangeKind::Undo)
    }

    /// Adds a folder that is moved or removed as a whole.
    #[must_use]
    pub fn folder(mut self, place: &str, from: &str, to: Option<&str>) -> Self {
        self.0.folder =
            Some(FolderChange { root: root(place), path: path(from), moved_to: to.map(path) });
        self
    }

    /// Adds a write use at the time of the change.
    #[must_use]
    pub fn uses(mut self, of: &str) -> Self {
        let at = self.0.at;
        self.0.uses.push(UseEvent {
            identity: IDENTITY.to_owned(),
            path: path(of),
            at,
            is_write: true,
        });
        self
    }

    /// Adds the files of another change.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.0.files.extend(other.0.files);
        self
    }

    /// Marks its texts as influenced by unreviewed text.
    #[must_use]
    pub fn influenced(mut self) -> Self {
        for file in &mut self.0.files {
            file.influenced = true;
            file.change.trust = Trust::Outside;
        }
        self
    }

    /// Sets a person as the author.
    #[must_use]
    pub fn by_person(mut self) -> Self {
        self.0.provenance = Provenance::person("cli");
        for file in &mut self.0.files {
            file.change.trust = Trust::Person;
        }
        self
    }

    /// Returns the change.
    pub fn build(&self) -> NewChange {
        self.0.clone()
    }
}

/// Returns a change of these files, made by an agent.
pub fn files(kind: ChangeKind, files: Vec<NewFileChange>) -> ChangeBuilder {
    ChangeBuilder(NewChange {
        at: time(0),
        kind,
        provenance: Provenance::agent("mcp"),
        attempt: None,
        accepts: None,
        undoes: None,
        folder: None,
        files,
        uses: Vec::new(),
        holds: Vec::new(),
    })
}

fn file(place: &str, at: &str, before: Option<&str>, after: Option<&str>) -> NewFileChange {
    let bytes = |text: Option<&str>| text.map(|text| Arc::from(text.as_bytes()));
    let revision = |text: Option<&str>| text.map(|text| Revision::digest(text.as_bytes()));
    NewFileChange {
        change: FileChange {
            root: root(place),
            path: path(at),
            moved_to: None,
            before: revision(before),
            after: revision(after),
            trust: Trust::Agent,
        },
        before: bytes(before),
        after: bytes(after),
        influenced: false,
    }
}

/// Returns the creation of a memory.
pub fn write(place: &str, at: &str, after: &str) -> ChangeBuilder {
    files(ChangeKind::Create, vec![file(place, at, None, Some(after))])
}

/// Returns the edit of a memory.
pub fn edit(place: &str, at: &str, (before, after): (&str, &str)) -> ChangeBuilder {
    files(ChangeKind::Edit, vec![file(place, at, Some(before), Some(after))])
}

/// Returns the removal of a memory.
pub fn remove(place: &str, at: &str, before: &str) -> ChangeBuilder {
    files(ChangeKind::Delete, vec![file(place, at, Some(before), None)])
}

/// Returns the renaming of a memory.
pub fn rename(place: &str, (from, to): (&str, &str), text: &str) -> ChangeBuilder {
    let mut renamed = file(place, from, Some(text), Some(text));
    renamed.change.moved_to = Some(path(to));
    renamed.after = None;
    files(ChangeKind::Rename, vec![renamed])
}

/// Returns the external removal of a memory.
pub fn outside(place: &str, at: &str, before: &str) -> ChangeBuilder {
    let mut gone = remove(place, at, before).kind(ChangeKind::Outside);
    gone.0.provenance = Provenance::outside();
    gone
}

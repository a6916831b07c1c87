//! Changes in a few words, so that a claim shows what matters in it.

use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, FileChange, FolderChange, Provenance, RootKey, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use memory::proposal::ProposalId;
use state::{NewChange, NewFileChange, UseEvent};

/// The identity that all roots share unless a claim says otherwise.
pub(super) const IDENTITY: &str = "project:lukasa";

/// Returns the path that is written so.
pub fn path(text: &str) -> RelativePath {
    RelativePath::parse(text).unwrap()
}

/// Returns the worktree `place` of the one project.
pub fn root(place: &str) -> RootKey {
    RootKey { identity: IDENTITY.to_owned(), place: place.to_owned() }
}

/// Returns a time, so many seconds and one nanosecond into 2026.
pub fn time(seconds: i64) -> Timestamp {
    Timestamp::new(1_767_225_600 + seconds, 1).unwrap()
}

/// A change that is being put together.
#[derive(Clone, Debug)]
pub struct ChangeBuilder(pub NewChange);

impl ChangeBuilder {
    /// Sets when it happened.
    #[must_use]
    pub fn at(mut self, seconds: i64) -> Self {
        self.0.at = time(seconds);
        self
    }

    /// Sets what it says it is.
    #[must_use]
    pub fn kind(mut self, kind: ChangeKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Sets the task that it belongs to.
    #[must_use]
    pub fn task(mut self, task: &str) -> Self {
        self.0.provenance.task = Some(task.to_owned());
        self
    }

    /// Sets the session of a host that it is from.
    #[must_use]
    pub fn session(mut self, session: &str) -> Self {
        self.0.provenance.session = Some(session.to_owned());
        self
    }

    /// Sets which attempt at its task makes it.
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

    /// Sets the change that it takes back.
    #[must_use]
    pub fn undoes(mut self, id: ChangeId) -> Self {
        self.0.undoes = Some(id);
        self.kind(ChangeKind::Undo)
    }

    /// Lets it take a folder as a whole.
    #[must_use]
    pub fn folder(mut self, place: &str, from: &str, to: Option<&str>) -> Self {
        self.0.folder =
            Some(FolderChange { root: root(place), path: path(from), moved_to: to.map(path) });
        self
    }

    /// Counts a use that wrote, at the time of the change.
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

    /// Adds what becomes of the files of another.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.0.files.extend(other.0.files);
        self
    }

    /// Says that its texts were written under the influence of text that nobody reviewed.
    #[must_use]
    pub fn influenced(mut self) -> Self {
        for file in &mut self.0.files {
            file.influenced = true;
            file.change.trust = Trust::Outside;
        }
        self
    }

    /// Says that a person wrote it.
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

/// Returns that a memory was found gone.
pub fn outside(place: &str, at: &str, before: &str) -> ChangeBuilder {
    let mut gone = remove(place, at, before).kind(ChangeKind::Outside);
    gone.0.provenance = Provenance::outside();
    gone
}

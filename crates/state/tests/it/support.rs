//! A database in a temporary folder, with access to it beside the state.

use std::path::{Path, PathBuf};

use lukasa_state::{ChangeQuery, HistoryStore, SqliteState};
use memory::change::ChangeId;
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;
use testkit::conformance::state::write;

/// A temporary folder for one database.
pub(crate) struct StateFolder {
    folder: TempDir,
}

impl StateFolder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("state.db")
    }

    pub(crate) fn state(&self) -> SqliteState {
        SqliteState::new(self.path())
    }

    /// Returns the names in the folder, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }

    /// Runs one statement on the database, as another program would.
    pub(crate) async fn run(&self, sql: &'static str) {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.path());
        let options = options.create_if_missing(true);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        sqlx::query(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Records `count` memories, each pinned, as `m0.md`, `m1.md`, ….
pub(crate) async fn fill(state: &SqliteState, count: usize) -> Vec<ChangeId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let name = format!("m{number}.md");
        let text = format!("text {number}\n").repeat(40);
        let builder = write("one", &name, &text).uses(&name);
        ids.push(state.record(builder.build()).await.unwrap());
    }
    ids
}

/// Returns the numbers of all changes, oldest first.
pub(crate) async fn recorded_changes(state: &SqliteState) -> Vec<ChangeId> {
    let query = ChangeQuery { max: usize::MAX, ..ChangeQuery::default() };
    let changes = state.changes(&query).await.unwrap();
    changes.into_iter().rev().map(|change| change.id).collect()
}

/// A short pseudorandom sequence of numbers with a fixed seed.
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    /// Returns the next number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }
}

//! The account of what was copied, and of what was left where it is.

use engine::BaseFolders;
use postgres::Database;
use serde_json::{Map, Value, json};
use state::transfer::{RowSource, TABLES};
use store::HostedRoot;

use super::copy::Content;
use crate::app::App;
use crate::exit::{Failure, Status};
use crate::render::{counted, sanitize};

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToDatabase,
    ToHome,
}

/// The stage that a copy has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Only counted.
    Counted,
    /// Copied and compared.
    Compared,
    /// Put in place after an earlier process had copied and compared it.
    Resumed,
}

/// The contents of a copy.
#[derive(Debug)]
pub(super) struct Report {
    direction: Direction,
    home: BaseFolders,
    progress: Progress,
    /// Rows of each table, in the order of [`TABLES`].
    rows: Vec<u64>,
    /// Memories by root.
    memories: Vec<(String, u64)>,
    unfinished_tasks: u64,
    other_identities: Vec<String>,
    /// Entries that are no memories, and stay.
    skipped: usize,
}

impl Report {
    /// Counts what an end has.
    pub(super) async fn count(
        direction: Direction,
        home: &BaseFolders,
        rows: &mut dyn RowSource,
        roots: &[HostedRoot],
    ) -> Result<Self, Failure> {
        let mut report = Self { direction, ..Self::resumed(home) };
        report.progress = Progress::Counted;
        for table in TABLES {
            report.rows.push(rows.count(table).await?);
        }
        report.unfinished_tasks = rows.unfinished_tasks().await?;
        report.other_identities = rows.other_identities().await?;
        for root in roots {
            let size = root.count().await?;
            report.skipped += size.skipped.len();
            let files = u64::try_from(size.files).expect("a length fits 64 bits");
            report.memories.push((root.identity().to_owned(), files));
        }
        Ok(report)
    }

    /// Returns the report about a home that was complete.
    pub(super) fn resumed(home: &BaseFolders) -> Self {
        Self {
            direction: Direction::ToHome,
            home: home.clone(),
            progress: Progress::Resumed,
            rows: Vec::new(),
            memories: Vec::new(),
            unfinished_tasks: 0,
            other_identities: Vec::new(),
            skipped: 0,
        }
    }

    /// Returns the number of tasks that wait or run at the origin.
    pub(super) const fn unfinished_tasks(&self) -> u64 {
        self.unfinished_tasks
    }

    /// Returns the number of rows and memories.
    pub(super) fn steps(&self) -> usize {
        let all = self.rows.iter().sum::<u64>() + self.memory_count();
        usize::try_from(all).unwrap_or(usize::MAX)
    }

    /// Replaces the counts by those of what was copied and compared.
    pub(super) fn set_content(&mut self, content: &Content) {
        self.progress = Progress::Compared;
        self.rows = content.state.tables.iter().map(|table| table.items).collect();
        let files = content.files.iter();
        self.memories = files.map(|(identity, digest)| (identity.clone(), digest.items)).collect();
    }

    fn memory_count(&self) -> u64 {
        self.memories.iter().map(|(_, files)| files).sum()
    }

    /// Prints the account.
    pub(super) fn print(
        &self,
        app: &App,
        database: &Database,
        owner: &str,
    ) -> Result<Status, Failure> {
        let home = self.home.data.display().to_string();
        let database = format!("{} (owner {owner})", database.name());
        let (from, to) = match self.direction {
            Direction::ToDatabase => (home, database),
            Direction::ToHome => (database, home),
        };
        if app.output.json {
            app.output.value(&self.value(&from, &to))?;
            return Ok(Status::Done);
        }
        self.print_text(app, &from, &to)?;
        Ok(Status::Done)
    }

    fn value(&self, from: &str, to: &str) -> Value {
        let rows = TABLES.iter().zip(&self.rows);
        let rows: Map<_, _> =
            rows.map(|(table, rows)| (table.name.to_owned(), json!(rows))).collect();
        let memories: Map<_, _> = (self.memories.iter())
            .map(|(identity, files)| (identity.clone(), json!(files)))
            .collect();
        json!({
            "from": from,
            "to": to,
            "copied": self.progress != Progress::Counted,
            "compared": self.progress != Progress::Counted,
            "rows": rows,
            "memories": memories,
            "left": {
                "unfinished_tasks": self.unfinished_tasks,
                "roots_in_checkouts": self.other_identities,
                "files_that_are_no_memories": self.skipped,
            },
        })
    }

    fn print_text(&self, app: &App, from: &str, to: &str) -> Result<(), Failure> {
        if self.progress == Progress::Resumed {
            return Ok(());
        }
        let memories = usize::try_from(self.memory_count()).unwrap_or(usize::MAX);
        let rows = usize::try_from(self.rows.iter().sum::<u64>()).unwrap_or(usize::MAX);
        let changes =
            usize::try_from(self.rows.first().copied().unwrap_or(0)).unwrap_or(usize::MAX);
        let what = format!(
            "{} in {}, and {} of state, {} among them",
            counted(memories, "memory", "memories"),
            counted(self.memories.len(), "root", "roots"),
            counted(rows, "row", "rows"),
            counted(changes, "change", "changes"),
        );
        let ends = format!("from {} to {}", sanitize::line(from), sanitize::line(to));
        match self.progress {
            Progress::Compared => {
                app.output.text(&format!("copied {what}, {ends}\n"))?;
                app.output
                    .note("each row and each memory was read again on both sides, and is equal");
            }
            Progress::Counted | Progress::Resumed => {
                app.output.text(&format!("would copy {what}, {ends}\n"))?;
            }
        }
        self.print_left(app);
        Ok(())
    }

    /// Says what is not on the other side, or not in use there.
    fn print_left(&self, app: &App) {
        if !self.other_identities.is_empty() {
            let roots = counted(self.other_identities.len(), "project", "projects");
            app.output.note(&match self.direction {
                Direction::ToDatabase => format!(
                    "the history of {roots} in checkouts is copied, but not in use: their memories stay in the checkouts"
                ),
                Direction::ToHome => format!(
                    "the history of {roots} in checkouts is in use if the checkouts are at the same paths"
                ),
            });
        }
        if self.unfinished_tasks > 0 {
            let tasks = usize::try_from(self.unfinished_tasks).unwrap_or(usize::MAX);
            app.output.warning(&format!(
                "{} not finished: a task runs only where its workspace is served",
                counted(tasks, "task is", "tasks are")
            ));
        }
        if self.skipped > 0 {
            app.output.warning(&format!(
                "{} no memories and stay: links, special files, or names that no path has",
                counted(self.skipped, "entry is", "entries are")
            ));
        }
        if self.direction == Direction::ToDatabase {
            app.output
                .note("settings, tokens, trusted folders and hidden files stay on this machine");
        }
    }
}

//! What every column of every table may hold.
//!
//! Salvage copies, and the check counts, row by row; both believe nothing that a program of ours
//! could not have written.

use std::str::FromStr;

use memory::change::{Actor, ChangeKind, Trust};
use memory::path::RelativePath;
use memory::proposal::ProposalStatus;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, TypeInfo, ValueRef};

use crate::sqlite::content::Packed;
use crate::sqlite::proposals;
use crate::sqlite::row;
use crate::sqlite::script::Script;

/// A value as SQLite keeps it. There are no fractions in the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    fn read(row: &SqliteRow, column: usize) -> Option<Self> {
        let raw = row.try_get_raw(column).ok()?;
        // The type of a NULL is that of its column.
        if raw.is_null() {
            return Some(Self::Null);
        }
        match raw.type_info().name() {
            "INTEGER" => row.try_get(column).ok().map(Self::Number),
            "TEXT" => row.try_get(column).ok().map(Self::Text),
            "BLOB" => row.try_get(column).ok().map(Self::Bytes),
            _ => None,
        }
    }

    /// Adds the value to a script.
    pub(super) fn bind(self, script: &mut Script) {
        match self {
            Self::Null => script.value(None::<i64>),
            Self::Number(number) => script.value(number),
            Self::Text(text) => script.value(text),
            Self::Bytes(bytes) => script.value(bytes),
        };
    }
}

/// What a column may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Number,
    Positive,
    Count,
    SmallCount,
    Flag,
    Text,
    Bytes,
    Path,
    Digest,
    Kind,
    Actor,
    Trust,
    Status,
    Decision,
    Roots,
}

impl Holds {
    fn allows(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Number, Value::Number(_))
            | (Self::Positive, Value::Number(1..))
            | (Self::Count, Value::Number(0..))
            | (Self::SmallCount, Value::Number(0..=0xffff_ffff))
            | (Self::Flag, Value::Number(0 | 1))
            | (Self::Text, Value::Text(_))
            | (Self::Bytes, Value::Bytes(_)) => true,
            (Self::Path, Value::Text(text)) => RelativePath::parse(text).is_ok(),
            (Self::Digest, Value::Bytes(bytes)) => row::revision(bytes).is_some(),
            (Self::Kind, Value::Text(text)) => is_word::<ChangeKind>(text),
            (Self::Actor, Value::Text(text)) => is_word::<Actor>(text),
            (Self::Trust, Value::Text(text)) => is_word::<Trust>(text),
            (Self::Status, Value::Text(text)) => {
                ["queued", "running", "completed", "failed"].contains(&text.as_str())
            }
            (Self::Decision, Value::Text(text)) => is_word::<ProposalStatus>(text),
            (Self::Roots, Value::Text(text)) => proposals::are_roots(text),
            _ => false,
        }
    }
}

fn is_word<T: FromStr>(text: &str) -> bool {
    text.parse::<T>().is_ok()
}

#[derive(Debug)]
struct Column {
    name: &'static str,
    holds: Holds,
    may_be_null: bool,
}

const fn always(name: &'static str, holds: Holds) -> Column {
    Column { name, holds, may_be_null: false }
}

const fn maybe(name: &'static str, holds: Holds) -> Column {
    Column { name, holds, may_be_null: true }
}

impl Column {
    fn allows(&self, value: &Value) -> bool {
        self.holds.allows(value) || (self.may_be_null && *value == Value::Null)
    }
}

/// One table: its columns with what they may hold, and the order of its rows on the disk.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name.
    pub(super) name: &'static str,
    /// The columns of its key, in order.
    key: &'static [&'static str],
    columns: &'static [Column],
}

/// Which end of a table to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The first row.
    Start,
    /// The last row.
    End,
}

impl Table {
    /// Returns the statement that reads all rows.
    pub(super) fn select(&self, from: From) -> String {
        let direction = match from {
            From::Start => "ASC",
            From::End => "DESC",
        };
        let order: Vec<_> = self.key.iter().map(|column| format!("{column} {direction}")).collect();
        format!("SELECT {} FROM {} ORDER BY {}", self.names(), self.name, order.join(", "))
    }

    /// Returns the statement that adds a row unless it is there.
    pub(super) fn insert(&self) -> String {
        let values: Vec<_> = (1..=self.columns.len()).map(|number| format!("${number}")).collect();
        format!(
            "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING;",
            self.name,
            self.names(),
            values.join(", ")
        )
    }

    /// Returns the values of a row that [`Table::select`] read, `None` if one is impossible.
    pub(super) fn read(&self, row: &SqliteRow) -> Option<Vec<Value>> {
        let values =
            self.columns.iter().enumerate().map(|(index, column)| {
                Value::read(row, index).filter(|value| column.allows(value))
            });
        let values: Vec<Value> = values.collect::<Option<_>>()?;
        (self.name != CONTENTS || has_its_digest(&values)).then_some(values)
    }

    fn names(&self) -> String {
        self.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
    }
}

const CONTENTS: &str = "contents";

/// All tables, what a person would miss most first.
pub(super) const TABLES: [Table; 15] = [
    Table {
        name: "marks",
        key: &["identity", "path"],
        columns: &[
            always("identity", Holds::Text),
            always("path", Holds::Path),
            always("pinned", Holds::Flag),
            always("uses", Holds::Count),
            maybe("last_used_at", Holds::Number),
            maybe("last_written_at", Holds::Number),
        ],
    },
    Table {
        name: "changes",
        key: &["id"],
        columns: &[
            always("id", Holds::Positive),
            always("at", Holds::Number),
            always("kind", Holds::Kind),
            always("actor", Holds::Actor),
            always("trust", Holds::Trust),
            always("origin", Holds::Text),
            maybe("client", Holds::Text),
            maybe("session", Holds::Text),
            maybe("task", Holds::Text),
            maybe("tool_call", Holds::Text),
            maybe("model", Holds::Text),
            maybe("note", Holds::Text),
            maybe("undoes", Holds::Number),
            maybe("folder_identity", Holds::Text),
            maybe("folder_place", Holds::Text),
            maybe("folder_path", Holds::Path),
            maybe("folder_moved_to", Holds::Path),
        ],
    },
    Table {
        name: "change_files",
        key: &["change_id", "seq"],
        columns: &[
            always("change_id", Holds::Positive),
            always("seq", Holds::Count),
            always("identity", Holds::Text),
            always("place", Holds::Text),
            always("path", Holds::Path),
            maybe("moved_to", Holds::Path),
            maybe("before", Holds::Digest),
            maybe("after", Holds::Digest),
            always("trust", Holds::Trust),
            always("wrote", Holds::Flag),
        ],
    },
    Table {
        name: CONTENTS,
        key: &["id"],
        columns: &[
            always("revision", Holds::Digest),
            always("codec", Holds::Count),
            always("size", Holds::Count),
            always("bytes", Holds::Bytes),
        ],
    },
    Table {
        name: "heads",
        key: &["place", "path"],
        columns: &[
            always("path", Holds::Path),
            always("place", Holds::Text),
            always("identity", Holds::Text),
            maybe("revision", Holds::Digest),
            always("trust", Holds::Trust),
            always("change_id", Holds::Positive),
        ],
    },
    Table {
        name: "influenced",
        key: &["identity", "revision", "change_id"],
        columns: &[
            always("identity", Holds::Text),
            always("revision", Holds::Digest),
            always("change_id", Holds::Positive),
        ],
    },
    Table {
        name: "open_changes",
        key: &["change_id", "what", "root", "path"],
        columns: &[
            always("change_id", Holds::Positive),
            always("what", Holds::Text),
            always("root", Holds::Text),
            always("path", Holds::Text),
            maybe("identity", Holds::Text),
            maybe("revision", Holds::Digest),
            maybe("trust", Holds::Trust),
            maybe("head_change", Holds::Number),
            maybe("pinned", Holds::Flag),
            maybe("uses", Holds::Count),
            maybe("last_used_at", Holds::Number),
            maybe("last_written_at", Holds::Number),
            maybe("added", Holds::Count),
        ],
    },
    Table {
        name: "model_work",
        key: &["number"],
        columns: &[
            always("number", Holds::Positive),
            always("workspace", Holds::Text),
            always("ended_at", Holds::Number),
            always("background", Holds::Flag),
            always("tokens", Holds::Count),
            always("data", Holds::Text),
        ],
    },
    Table {
        name: "tasks",
        key: &["seq"],
        columns: &[
            always("seq", Holds::Positive),
            always("id", Holds::Text),
            always("workspace", Holds::Text),
            always("kind", Holds::Text),
            maybe("client", Holds::Text),
            always("status", Holds::Status),
            always("attempts", Holds::SmallCount),
            always("created_at", Holds::Number),
            always("updated_at", Holds::Number),
            always("request", Holds::Text),
            maybe("outcome", Holds::Text),
        ],
    },
    Table {
        name: "sessions",
        key: &["id"],
        columns: &[
            always("id", Holds::Text),
            always("workspace", Holds::Text),
            always("client", Holds::Text),
            always("created_at", Holds::Number),
        ],
    },
    Table {
        name: "dreams",
        key: &["workspace"],
        columns: &[
            always("workspace", Holds::Text),
            maybe("asked_at", Holds::Number),
            always("sessions", Holds::Count),
        ],
    },
    Table {
        name: "conversations",
        key: &["id"],
        columns: &[
            always("id", Holds::Text),
            always("workspace", Holds::Text),
            always("version", Holds::Count),
            always("heard_at", Holds::Number),
            always("data", Holds::Text),
        ],
    },
    Table {
        name: "segments",
        key: &["conversation"],
        columns: &[
            always("conversation", Holds::Text),
            always("segment", Holds::Count),
            always("version", Holds::Count),
            always("heard_at", Holds::Number),
            always("data", Holds::Text),
        ],
    },
    Table {
        name: "proposals",
        key: &["id"],
        columns: &[
            always("id", Holds::Positive),
            always("made_at", Holds::Number),
            always("origin", Holds::Text),
            maybe("task", Holds::Text),
            always("digest", Holds::Digest),
            always("status", Holds::Decision),
            maybe("decided_at", Holds::Number),
            maybe("change_id", Holds::Number),
            always("trust", Holds::Trust),
            always("roots", Holds::Roots),
            always("proposal", Holds::Text),
        ],
    },
    Table {
        name: "runs",
        key: &["task", "attempt"],
        columns: &[
            always("task", Holds::Text),
            always("attempt", Holds::SmallCount),
            always("runner", Holds::Text),
            always("started_at", Holds::Number),
            maybe("ended_at", Holds::Number),
            maybe("outcome", Holds::Text),
        ],
    },
];

fn has_its_digest(values: &[Value]) -> bool {
    let [Value::Bytes(digest), Value::Number(codec), Value::Number(size), Value::Bytes(bytes)] =
        values
    else {
        return false;
    };
    let packed = Packed { codec: *codec, size: *size, bytes: bytes.clone() };
    row::revision(digest).is_some_and(|revision| packed.unpack(&revision).is_some())
}

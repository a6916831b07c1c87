//! Copying all rows of one owner between two databases of the state.
//!
//! [`TABLES`] describes the tables that both kinds of database have. A [`RowSource`] returns the rows of a table in
//! pages, a [`RowTarget`] stores them, and [`copy_rows`] connects the two. [`digest_rows`] reads a database again, so
//! that a copy can be compared with its origin.
//!
//! Rows between a source and a target have the form of a shared database: a hosted root has its identity as its place.
//! An adapter of a database of one machine converts places with [`Places`].
//!
//! Open changes are not copied. The caller first completes interrupted writes and copies the files, so no change has
//! to be carried out again.

mod places;
#[cfg(test)]
mod tests;

pub use places::Places;

use async_trait::async_trait;
use memory::document::Revision;

use crate::error::StateError;
use crate::rows::{ColumnResult, StoredRow};

/// Most bytes of texts and blobs in a page, unless one row alone has more.
const PAGE_BYTES_MAX: u64 = 4 << 20;

/// Most rows in a page.
const PAGE_ROWS_MAX: usize = 1_000;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A number of 64 bits.
    Integer,
    /// A truth value.
    Flag,
    /// Text without U+0000.
    Text,
    /// Bytes.
    Bytes,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnKind,
}

/// A table that is copied.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns; those of the key come first.
    pub columns: &'static [Column],
    /// Number of columns of the key.
    pub key: usize,
    /// The columns with an identity and its place.
    located: Option<(&'static str, &'static str)>,
    /// The column with JSON that contains pairs of identity and place.
    pairs: Option<&'static str>,
}

const fn integer(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Integer }
}

const fn flag(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Flag }
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Text }
}

const fn bytes(name: &'static str) -> Column {
    Column { name, kind: ColumnKind::Bytes }
}

const fn table(name: &'static str, key: usize, columns: &'static [Column]) -> Table {
    Table { name, columns, key, located: None, pairs: None }
}

/// The tables that are copied. The columns are in the order of [`Row`], and not of the database.
pub const TABLES: &[Table] = &[
    Table {
        located: Some(("folder_identity", "folder_place")),
        ..table(
            "changes",
            1,
            &[
                integer("id"),
                integer("at"),
                text("kind"),
                text("actor"),
                text("trust"),
                text("origin"),
                text("client"),
                text("session"),
                text("task"),
                text("tool_call"),
                text("model"),
                text("note"),
                integer("undoes"),
                text("folder_identity"),
                text("folder_place"),
                text("folder_path"),
                text("folder_moved_to"),
            ],
        )
    },
    Table {
        located: Some(("identity", "place")),
        ..table(
            "change_files",
            2,
            &[
                integer("change_id"),
                integer("seq"),
                text("identity"),
                text("place"),
                text("path"),
                text("moved_to"),
                bytes("before"),
                bytes("after"),
                text("trust"),
                flag("wrote"),
            ],
        )
    },
    table("contents", 1, &[bytes("revision"), integer("codec"), integer("size"), bytes("bytes")]),
    Table {
        located: Some(("identity", "place")),
        ..table(
            "heads",
            2,
            &[
                text("place"),
                text("path"),
                text("identity"),
                bytes("revision"),
                text("trust"),
                integer("change_id"),
            ],
        )
    },
    table(
        "marks",
        2,
        &[
            text("identity"),
            text("path"),
            flag("pinned"),
            integer("uses"),
            integer("last_used_at"),
            integer("last_written_at"),
        ],
    ),
    table("influenced", 3, &[text("identity"), bytes("revision"), integer("change_id")]),
    Table {
        // The outcome of a running task contains the proposals that it will make.
        pairs: Some("outcome"),
        ..table(
            "tasks",
            1,
            &[
                integer("seq"),
                text("id"),
                text("workspace"),
                text("kind"),
                text("client"),
                text("status"),
                integer("attempts"),
                integer("created_at"),
                integer("updated_at"),
                text("request"),
                text("outcome"),
            ],
        )
    },
    table(
        "runs",
        2,
        &[
            text("task"),
            integer("attempt"),
            text("runner"),
            integer("started_at"),
            integer("ended_at"),
            text("outcome"),
        ],
    ),
    table("sessions", 1, &[text("id"), text("workspace"), text("client"), integer("created_at")]),
    table("dreams", 1, &[text("workspace"), integer("asked_at"), integer("sessions")]),
    table(
        "conversations",
        1,
        &[text("id"), text("workspace"), integer("version"), integer("heard_at"), text("data")],
    ),
    table(
        "segments",
        1,
        &[
            text("conversation"),
            integer("segment"),
            integer("version"),
            integer("heard_at"),
            text("data"),
        ],
    ),
    Table {
        pairs: Some("roots"),
        ..table(
            "proposals",
            1,
            &[
                integer("id"),
                integer("made_at"),
                text("origin"),
                text("task"),
                bytes("digest"),
                text("status"),
                integer("decided_at"),
                integer("change_id"),
                text("trust"),
                text("roots"),
                text("proposal"),
            ],
        )
    },
    table(
        "model_work",
        1,
        &[
            integer("number"),
            text("workspace"),
            integer("ended_at"),
            flag("background"),
            integer("tokens"),
            text("data"),
        ],
    ),
];

/// A value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Null,
    /// A number.
    Integer(i64),
    /// A truth value.
    Flag(bool),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The values of a row, in the order of [`Table::columns`].
pub type Row = Vec<Value>;

/// The last numbers that were given. Those of tasks follow from the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The last number of a change.
    pub change: i64,
    /// The last number of a proposal.
    pub proposal: i64,
    /// The last number of model work.
    pub work: i64,
}

/// A reader of all rows, as they were when it began.
#[async_trait]
pub trait RowSource: Send {
    /// Counts the rows of a table.
    async fn count(&mut self, table: &Table) -> Result<u64, StateError>;

    /// Returns the rows after the cursor, and sets it to the key of the last one. Returns none at the end.
    async fn page(
        &mut self,
        table: &Table,
        cursor: &mut Option<Row>,
    ) -> Result<Vec<Row>, StateError>;

    /// Returns the last numbers that were given.
    async fn counters(&mut self) -> Result<Counters, StateError>;

    /// Counts the tasks that have not ended.
    async fn unfinished_tasks(&mut self) -> Result<u64, StateError>;

    /// Returns the identities of the roots that are no hosted ones, such as those in checkouts, sorted.
    async fn other_identities(&mut self) -> Result<Vec<String>, StateError>;
}

/// The rows of a home without a database.
#[derive(Clone, Copy, Debug)]
pub struct NoRows;

#[async_trait]
impl RowSource for NoRows {
    async fn count(&mut self, _table: &Table) -> Result<u64, StateError> {
        Ok(0)
    }

    async fn page(
        &mut self,
        _table: &Table,
        _cursor: &mut Option<Row>,
    ) -> Result<Vec<Row>, StateError> {
        Ok(Vec::new())
    }

    async fn counters(&mut self) -> Result<Counters, StateError> {
        Ok(Counters::default())
    }

    async fn unfinished_tasks(&mut self) -> Result<u64, StateError> {
        Ok(0)
    }

    async fn other_identities(&mut self) -> Result<Vec<String>, StateError> {
        Ok(Vec::new())
    }
}

/// A writer of rows to a database that has none yet.
#[async_trait]
pub trait RowTarget: Send {
    /// Stores rows of a table.
    async fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), StateError>;

    /// Sets the last numbers that were given.
    async fn set_counters(&mut self, counters: Counters) -> Result<(), StateError>;
}

/// The number of rows of a table, and a digest of their values that does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentDigest {
    /// Number of items.
    pub items: u64,
    /// The sum of the digests of all items, in four words without carry.
    sum: [u64; 4],
}

impl ContentDigest {
    /// Adds an item.
    pub fn add(&mut self, item: &[u8]) {
        self.items += 1;
        let digest = *Revision::digest(item).as_bytes();
        let words = digest.as_chunks::<8>().0;
        for (sum, word) in self.sum.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }

    fn add_row(&mut self, row: &Row) {
        let mut encoded = Vec::new();
        for value in row {
            match value {
                Value::Null => encoded.push(0),
                Value::Integer(number) => {
                    encoded.push(1);
                    encoded.extend(number.to_le_bytes());
                }
                Value::Flag(flag) => encoded.extend([2, u8::from(*flag)]),
                Value::Text(text) => encode_sized(&mut encoded, 3, text.as_bytes()),
                Value::Bytes(bytes) => encode_sized(&mut encoded, 4, bytes),
            }
        }
        self.add(&encoded);
    }
}

fn encode_sized(encoded: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    encoded.push(tag);
    encoded.extend(bytes.len().to_le_bytes());
    encoded.extend(bytes);
}

/// The digests of all tables, in the order of [`TABLES`], and the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateDigest {
    /// The digest of each table.
    pub tables: Vec<ContentDigest>,
    /// The last numbers that were given.
    pub counters: Counters,
}

impl StateDigest {
    /// Returns the names of the tables that differ, and `counters` if the numbers do.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.tables.iter().zip(&other.tables);
        let tables = TABLES.iter().zip(pairs).filter(|(_, (ours, theirs))| ours != theirs);
        let counters = (self.counters != other.counters).then_some("counters");
        tables.map(|(table, _)| table.name).chain(counters).collect()
    }
}

/// Copies all rows and the counters. Calls `on_rows` with the number of rows of each page. Returns the digest of what
/// was read.
pub async fn copy_rows(
    from: &mut dyn RowSource,
    to: &mut dyn RowTarget,
    on_rows: &(dyn Fn(usize) + Send + Sync),
) -> Result<StateDigest, StateError> {
    let read = read_rows(from, Some(&mut *to), on_rows).await?;
    to.set_counters(read.counters).await?;
    Ok(read)
}

/// Reads all rows and the counters. Calls `on_rows` like [`copy_rows`].
pub async fn digest_rows(
    from: &mut dyn RowSource,
    on_rows: &(dyn Fn(usize) + Send + Sync),
) -> Result<StateDigest, StateError> {
    read_rows(from, None, on_rows).await
}

async fn read_rows(
    from: &mut dyn RowSource,
    mut to: Option<&mut dyn RowTarget>,
    on_rows: &(dyn Fn(usize) + Send + Sync),
) -> Result<StateDigest, StateError> {
    let mut read = StateDigest::default();
    for table in TABLES {
        let (mut digest, mut cursor) = (ContentDigest::default(), None);
        loop {
            let page = from.page(table, &mut cursor).await?;
            if page.is_empty() {
                break;
            }
            let count = page.len();
            for row in &page {
                digest.add_row(row);
            }
            if let Some(to) = &mut to {
                to.insert(table, page).await?;
            }
            on_rows(count);
        }
        read.tables.push(digest);
    }
    read.counters = from.counters().await?;
    Ok(read)
}

impl Table {
    /// Decodes a row with all columns of this table.
    pub fn decode(&self, stored: &dyn StoredRow) -> ColumnResult<Row> {
        self.columns.iter().map(|column| decode_value(stored, *column)).collect()
    }

    /// Decodes the key of a row.
    pub fn decode_key(&self, stored: &dyn StoredRow) -> ColumnResult<Row> {
        self.key_columns().iter().map(|column| decode_value(stored, *column)).collect()
    }

    /// Returns the columns of the key.
    pub fn key_columns(&self) -> &'static [Column] {
        self.columns.get(..self.key).expect("a key has no more columns than its table")
    }

    /// Returns the names of the columns, separated by commas.
    pub fn column_names(&self) -> String {
        names(self.columns)
    }

    /// Returns a query for the keys and sizes of the next rows. Its parameters from `first_parameter` on are the key
    /// after which they begin, if `is_after`. `scope` is a condition that ends with `AND`, or empty.
    pub fn sizes_query(&self, scope: &str, first_parameter: usize, is_after: bool) -> String {
        let key = names(self.key_columns());
        let wide = |column: &&Column| matches!(column.kind, ColumnKind::Text | ColumnKind::Bytes);
        let size = |column: &Column| format!("coalesce(octet_length({}), 0)", column.name);
        let sizes: Vec<_> = self.columns.iter().filter(wide).map(size).collect();
        let sizes = if sizes.is_empty() { "0".to_owned() } else { sizes.join(" + ") };
        let after = if is_after {
            format!("({key}) > ({})", parameters(first_parameter, self.key))
        } else {
            "true".to_owned()
        };
        let name = self.name;
        format!(
            "SELECT {key}, CAST({sizes} AS bigint) AS row_bytes FROM {name} WHERE {scope} {after}
            ORDER BY {key} LIMIT {PAGE_ROWS_MAX}"
        )
    }

    /// Returns a query for the rows up to a key, in the order of the keys. Its parameters are that key, and then the
    /// one after which the rows begin, if `is_after`.
    pub fn rows_query(&self, scope: &str, first_parameter: usize, is_after: bool) -> String {
        let (key, columns, name) = (names(self.key_columns()), self.column_names(), self.name);
        let last = parameters(first_parameter, self.key);
        let after = if is_after {
            format!("AND ({key}) > ({})", parameters(first_parameter + self.key, self.key))
        } else {
            String::new()
        };
        format!(
            "SELECT {columns} FROM {name} WHERE {scope} ({key}) <= ({last}) {after} ORDER BY {key}"
        )
    }
}

/// Returns the number of rows of a page, given the sizes of the next rows.
pub fn rows_in_page(sizes: impl IntoIterator<Item = i64>) -> usize {
    let mut total = 0_u64;
    let fits = |size: i64| {
        let is_first = total == 0;
        // A row without texts takes some bytes, too, and at least one is counted.
        total = total.saturating_add(u64::try_from(size).unwrap_or(0).max(1));
        is_first || total <= PAGE_BYTES_MAX
    };
    sizes.into_iter().map(fits).take_while(|fits| *fits).count()
}

fn decode_value(stored: &dyn StoredRow, column: Column) -> ColumnResult<Value> {
    let Column { name, kind } = column;
    let value = match kind {
        ColumnKind::Integer => stored.integer(name)?.map(Value::Integer),
        // No flag is NULL.
        ColumnKind::Flag => Some(Value::Flag(stored.flag(name)?)),
        ColumnKind::Text => stored.text(name)?.map(|text| Value::Text(text.to_owned())),
        ColumnKind::Bytes => stored.bytes(name)?.map(|bytes| Value::Bytes(bytes.to_vec())),
    };
    Ok(value.unwrap_or(Value::Null))
}

fn names(columns: &[Column]) -> String {
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    names.join(", ")
}

/// Returns the parameters `$first` and so on, separated by commas.
pub fn parameters(first: usize, count: usize) -> String {
    let parameters: Vec<_> = (first..first + count).map(|number| format!("${number}")).collect();
    parameters.join(", ")
}

//! Rows that are copied in and out: every table and column, and any values.

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use state::transfer::{
    ColumnKind, Counters, Places, Row, RowSource, RowTarget as _, StateDigest, TABLES, Table,
    Value, copy_rows, digest_rows,
};
use state::{SqliteImport, SqliteState};
use testkit::postgres::PostgresVersion;

use crate::support::{Server, open};

/// Tables that are not copied: owners are made, locks are taken, files are copied as files, events get new numbers, and
/// tokens stay.
const NOT_COPIED: [&str; 9] = [
    "completed_changes",
    "counters",
    "events",
    "files",
    "leases",
    "open_changes",
    "outside_readers",
    "roots",
    "tokens",
];

#[tokio::test]
async fn every_table_and_column_of_owners_is_copied_or_known_not_to_be() {
    let server = Server::start(PostgresVersion::Newest, &[]);
    let (name, address) = server.new_database();
    open(&address).await;
    let columns = "SELECT table_name, column_name, data_type FROM information_schema.columns c
        WHERE table_schema = 'public' AND EXISTS (SELECT 1 FROM information_schema.columns o
            WHERE o.table_schema = 'public' AND o.table_name = c.table_name AND o.column_name = 'owner')";
    let found = server.process.query(&name, columns).unwrap();
    let mut found: Vec<_> = found.lines().map(str::to_owned).collect();
    found.retain(|line| {
        let (table, column) = line.split_once('|').unwrap();
        !NOT_COPIED.contains(&table) && !column.starts_with("owner|")
    });
    let line = |table: &Table| {
        let name = table.name;
        let lines = table.columns.iter().map(move |column| {
            let kind = match column.kind {
                ColumnKind::Integer => "bigint",
                ColumnKind::Flag => "boolean",
                ColumnKind::Text => "text",
                ColumnKind::Bytes => "bytea",
            };
            format!("{name}|{}|{kind}", column.name)
        });
        lines.collect::<Vec<_>>()
    };
    let mut copied: Vec<_> = TABLES.iter().flat_map(line).collect();
    found.sort();
    copied.sort();
    assert_eq!(copied, found);
}

fn places() -> Places {
    Places::new(|identity| {
        let is_hosted = identity == "global" || identity.starts_with("workspace:");
        is_hosted.then(|| format!("place of {identity}"))
    })
}

/// Returns any value for a column, such as the columns of this program may have.
fn value(table: &'static str, name: &'static str, kind: ColumnKind) -> BoxedStrategy<Value> {
    let text = |texts: &'static [&'static str]| {
        prop::sample::select(texts).prop_map(|text| Value::Text(text.to_owned())).boxed()
    };
    match (table, name) {
        (_, "identity" | "folder_identity") => {
            text(&["global", "workspace:a", "workspace:b", "project:x", "flat:y"])
        }
        ("tasks", "status") => text(&["queued", "completed", "failed"]),
        ("proposals", "status") => text(&["waiting", "accepted", "rejected"]),
        (_, "roots") => text(&[
            r#"[["global","global"]]"#,
            r#"[["project:x","0123456789ab"],["workspace:a","workspace:a"]]"#,
            "not JSON",
        ]),
        // No database gives numbers near the largest one.
        ("changes", "id") => (1..1_i64 << 40).prop_map(Value::Integer).boxed(),
        ("tasks", "id") => "[a-z]{12}".prop_map(Value::Text).boxed(),
        ("contents", "bytes") => vec(any::<u8>(), 0..3_000).prop_map(Value::Bytes).boxed(),
        _ => match kind {
            ColumnKind::Integer => {
                prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), any::<i64>()]
                    .prop_map(Value::Integer)
                    .boxed()
            }
            ColumnKind::Flag => any::<bool>().prop_map(Value::Flag).boxed(),
            ColumnKind::Text => "[^\0]{0,8}".prop_map(Value::Text).boxed(),
            ColumnKind::Bytes => vec(any::<u8>(), 32).prop_map(Value::Bytes).boxed(),
        },
    }
}

/// Returns whether a column may be NULL.
fn is_nullable(table: &str, name: &str) -> bool {
    let everywhere =
        ["note", "undoes", "moved_to", "before", "outcome", "ended_at", "last_used_at"];
    everywhere.contains(&name) && table != "model_work" || (table, name) == ("tasks", "client")
}

fn row(table: &'static Table) -> BoxedStrategy<Row> {
    let mut row: BoxedStrategy<Row> = Just(Vec::new()).boxed();
    for column in table.columns {
        let any_value = value(table.name, column.name, column.kind);
        let any_value = if is_nullable(table.name, column.name) {
            prop_oneof![1 => Just(Value::Null), 3 => any_value].boxed()
        } else {
            any_value
        };
        row = (row, any_value)
            .prop_map(|(mut row, value)| {
                row.push(value);
                row
            })
            .boxed();
    }
    row.prop_map(|row| with_place(table, row)).boxed()
}

/// Sets the place of a row to one that its identity can have.
fn with_place(table: &Table, mut row: Row) -> Row {
    let index = |name: &str| table.columns.iter().position(|column| column.name == name);
    for names in [("identity", "place"), ("folder_identity", "folder_place")] {
        let (Some(identity), Some(place)) = (index(names.0), index(names.1)) else { continue };
        let Value::Text(identity) = row[identity].clone() else { return row };
        let is_hosted = !identity.starts_with("project") && !identity.starts_with("flat");
        let stays = matches!(&row[place], Value::Text(text) if text.len() > 6);
        row[place] =
            Value::Text(if is_hosted && !stays { identity } else { "0123456789ab".to_owned() });
    }
    row
}

/// Returns rows of a table with different keys.
fn rows_of(table: &'static Table) -> BoxedStrategy<Vec<Row>> {
    let keyed = row(table).prop_map(|row| (format!("{:?}", &row[..table.key]), row));
    vec(keyed, 0..12)
        .prop_map(|rows| rows.into_iter().collect::<std::collections::BTreeMap<_, _>>())
        .prop_map(|rows| rows.into_values().collect())
        .boxed()
}

async fn read(mut source: impl RowSource) -> (StateDigest, Vec<Vec<Row>>) {
    let mut all = Vec::new();
    for table in TABLES {
        let (mut rows, mut cursor) = (Vec::new(), None);
        loop {
            let page = source.page(table, &mut cursor).await.unwrap();
            if page.is_empty() {
                break;
            }
            rows.extend(page);
        }
        rows.sort_by_key(|row| format!("{row:?}"));
        all.push(rows);
    }
    (digest_rows(&mut source, &|_| {}).await.unwrap(), all)
}

async fn read_sqlite(path: &Path) -> (StateDigest, Vec<Vec<Row>>) {
    read(SqliteState::new(path.to_owned()).snapshot(places()).await.unwrap().unwrap()).await
}

#[tokio::test]
async fn any_rows_are_the_same_in_a_home_in_a_database_and_in_a_home_again() {
    let server = Server::start(PostgresVersion::Newest, &[]);
    let (_, address) = server.new_database();
    let database = open(&address).await;
    let mut runner = TestRunner::new(Config::default());
    for case in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("1.db"), folder.path().join("2.db"));
        let mut expected = Vec::new();
        let mut home = SqliteImport::create(&first, places()).await.unwrap();
        for table in TABLES {
            let mut rows = rows_of(table).new_tree(&mut runner).unwrap().current();
            home.insert(table, rows.clone()).await.unwrap();
            rows.sort_by_key(|row| format!("{row:?}"));
            expected.push(rows);
        }
        let counters = Counters { change: 1 << 41, proposal: case, work: 7 };
        home.set_counters(counters).await.unwrap();
        home.finish().await.unwrap();
        let (in_home, rows) = read_sqlite(&first).await;
        assert_eq!(rows, expected);
        assert_eq!(in_home.counters, counters);

        let owner = format!("owner{case}");
        let mut import = database.begin_import(&owner).await.unwrap();
        let mut source = SqliteState::new(first).snapshot(places()).await.unwrap().unwrap();
        let copied = copy_rows(&mut source, &mut import, &|_| {}).await.unwrap();
        assert_eq!(copied, in_home);
        assert_eq!(
            read(import.snapshot().await.unwrap()).await,
            (in_home.clone(), expected.clone())
        );
        assert!(database.find_owner(&owner).await.unwrap().is_none(), "it is not complete");
        import.finish().await.unwrap();

        let owner = database.find_owner(&owner).await.unwrap().unwrap();
        let mut home = SqliteImport::create(&second, places()).await.unwrap();
        let mut source = owner.snapshot().await.unwrap();
        let copied = copy_rows(&mut source, &mut home, &|_| {}).await.unwrap();
        home.finish().await.unwrap();
        assert_eq!(copied, in_home);
        assert_eq!(read_sqlite(&second).await, (in_home, expected));
    }
}

#[tokio::test]
async fn a_second_import_waits_for_the_first_and_replaces_one_that_was_left() {
    let server = Server::start(PostgresVersion::Newest, &[]);
    let (name, address) = server.new_database();
    let (database, other) = (open(&address).await, open(&address).await);
    let mut left = database.begin_import("a").await.unwrap();
    let tables = TABLES.iter().find(|table| table.name == "sessions").unwrap();
    let session = |id: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        vec![text(id), text("w"), text("c"), Value::Integer(1)]
    };
    left.insert(tables, vec![session("one")]).await.unwrap();
    let refused = other.begin_import("a").await;
    assert!(matches!(refused, Err(lukasa_postgres::ImportError::Running(_))), "{refused:?}");
    // Its process has lost its lock, as after a pause.
    let lose = "UPDATE leases SET until = clock_timestamp() - interval '1 s', holder = NULL, fence = fence + 1";
    server.process.query(&name, lose).unwrap();
    let second = other.begin_import("a").await.unwrap();
    left.insert(tables, vec![session("two")]).await.unwrap_err();
    let refused = left.finish().await;
    assert!(refused.is_err(), "{refused:?}");
    second.finish().await.unwrap();
    assert_eq!(server.process.query(&name, "SELECT count(*) FROM sessions").unwrap(), "0\n");
    assert_eq!(server.process.query(&name, "SELECT name FROM owners").unwrap(), "a\n");
}

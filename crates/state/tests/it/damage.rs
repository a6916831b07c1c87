//! Damaged databases: calls recover, the old file is kept whole, indexes are rebuilt.

use std::fs;

use lukasa_state::{HistoryStore, SqliteState, StateError, set_aside_databases};
use memory::change::ChangeId;
use memory::document::Revision;
use testkit::conformance::state::{edit, path, time, write};

use crate::support::{Seeded, StateFolder, fill, recorded_changes};

const MEMORIES: usize = 60;
const IDENTITY: &str = "project:lukasa";
const NOTHING: [String; 0] = [];

/// Returns the bytes of a sound database with [`MEMORIES`] memories, all pinned.
async fn sound() -> Vec<u8> {
    let place = StateFolder::new();
    let state = place.state();
    let ids = fill(&state, MEMORIES).await;
    for number in 0..MEMORIES {
        let path = path(&format!("m{number}.md"));
        state.set_pin((IDENTITY, &path), true, time(1)).await.unwrap();
    }
    state.mark_durable(&ids).await.unwrap();
    state.close().await;
    fs::read(place.path()).unwrap()
}

/// Uses a database in every way. However it is damaged, it is sound in the end.
async fn use_and_repair(place: &StateFolder) -> SqliteState {
    let state = place.state();
    let named = |error: &StateError| {
        assert!(
            matches!(error, StateError::Damaged { .. } | StateError::Failed { .. }),
            "{error:?}"
        );
    };
    state.usage_rows(IDENTITY).await.inspect_err(named).map(drop).unwrap_or_default();
    state.heads("one", ChangeId(0)).await.inspect_err(named).map(drop).unwrap_or_default();
    let builder = edit("one", "m0.md", (&"text 0\n".repeat(40), "other")).uses("m0.md");
    state.record(builder.build()).await.inspect_err(named).map(drop).unwrap_or_default();
    state.repair().await.expect("damage is repaired or set aside");
    assert_eq!(state.check().await.unwrap(), NOTHING);
    let id = state.record(write("two", "new.md", "new").uses("new.md").build()).await.unwrap();
    assert_eq!(recorded_changes(&state).await.last(), Some(&id));
    state
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_set_aside() {
    let sound = sound().await;
    let header = sound.get(..100).unwrap();
    let cases: [&[u8]; 5] = [
        b"x",
        &[0; 4096],
        &[0xff; 10_000],
        b"# Notes\n\nThese are a person's notes, and no database at all.\n",
        header,
    ];
    for bytes in cases {
        let place = StateFolder::new();
        fs::write(place.path(), bytes).unwrap();
        let state = place.state();
        assert_eq!(state.usage_rows(IDENTITY).await.unwrap(), []);
        fill(&state, 1).await;
        let aside = state.last_repair().and_then(|repair| repair.set_aside);
        assert_eq!(fs::read(aside.unwrap()).unwrap(), bytes);
        assert_eq!(state.check().await.unwrap(), NOTHING);
    }
}

#[tokio::test]
async fn an_empty_file_is_a_new_database() {
    let place = StateFolder::new();
    fs::write(place.path(), "").unwrap();
    let state = place.state();
    assert_eq!(state.usage_rows(IDENTITY).await.unwrap(), []);
    assert_eq!(fill(&state, 1).await, [ChangeId(1)]);
    assert_eq!(state.last_repair(), None);
}

#[tokio::test]
async fn a_database_of_another_program_is_set_aside_and_the_message_says_where() {
    let place = StateFolder::new();
    place.run("CREATE TABLE recipes (name TEXT)").await;
    let state = place.state();
    fill(&state, 1).await;
    let repair = state.last_repair().unwrap();
    let aside = place.path().with_file_name("state.db.damaged-1");
    assert_eq!(repair.set_aside.as_ref(), Some(&aside));
    let old = aside.display();
    assert_eq!(
        repair.to_string(),
        format!(
            "the state database was damaged and a new one was started; no memory is lost, but undo history, \
             pins, usage, queued tasks and proposals are; the old one is {old}, and `sqlite3 {old} .recover` \
             reads what is left: the database cannot be read: the file is a database of another program"
        )
    );
    assert_eq!(set_aside_databases(&place.path()).unwrap(), [aside]);
}

#[tokio::test]
async fn a_truncated_database_is_set_aside_unchanged() {
    let sound = sound().await;
    let mut seeded = Seeded(20_261_122);
    for _ in 0..24 {
        let place = StateFolder::new();
        let length = seeded.below(sound.len() - 1) + 1;
        fs::write(place.path(), &sound[..length]).unwrap();
        let state = use_and_repair(&place).await;
        let aside = state.last_repair().and_then(|repair| repair.set_aside);
        let aside = aside.unwrap_or_else(|| panic!("cut at {length}"));
        assert!(fs::read(aside).unwrap() == sound[..length], "cut at {length}");
    }
}

#[tokio::test]
async fn flipped_bits_never_make_the_state_unusable() {
    let sound = sound().await;
    let pages = sound.len() / 4096;
    let mut seeded = Seeded(7);
    for round in 0..48 {
        let place = StateFolder::new();
        let mut bytes = sound.clone();
        // Up to one and a half bits a page, whatever the size.
        for _ in 0..((round + 1) * pages).div_ceil(30) {
            let offset = seeded.below(bytes.len());
            bytes[offset] ^= 1 << seeded.below(8);
        }
        fs::write(place.path(), &bytes).unwrap();
        use_and_repair(&place).await;
    }
}

#[tokio::test]
async fn a_page_overwritten_in_the_middle_sets_the_database_aside() {
    let sound = sound().await;
    let pages = sound.len() / 4096;
    let mut set_aside = 0;
    for page in 1..pages {
        let place = StateFolder::new();
        let mut bytes = sound.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(place.path(), &bytes).unwrap();
        use_and_repair(&place).await;
        set_aside += set_aside_databases(&place.path()).unwrap().len();
    }
    // Damage to a page of free space does not matter.
    assert!(set_aside > pages - 6, "{set_aside} of {pages}");
}

#[tokio::test]
async fn a_damaged_index_is_rebuilt_and_no_row_is_lost() {
    let sound = sound().await;
    let place = StateFolder::new();
    fs::write(place.path(), &sound).unwrap();
    let before = recorded_changes(&place.state()).await;
    let marks = place.state().usage_rows(IDENTITY).await.unwrap();
    // The index of contents holds each digest once more; its page has them and nothing of the rows.
    let revision = Revision::digest("text 7\n".repeat(40).as_bytes());
    let mut bytes = sound.clone();
    let places: Vec<usize> = (0..bytes.len() - 32)
        .filter(|offset| bytes[*offset..*offset + 32] == revision.as_bytes()[..])
        .collect();
    let mut rebuilt = 0;
    for offset in places {
        bytes.clone_from(&sound);
        bytes[offset + 31] ^= 1;
        let place = StateFolder::new();
        fs::write(place.path(), &bytes).unwrap();
        let state = place.state();
        let repair = state.repair().await.unwrap();
        if repair.is_some_and(|repair| repair.reason.contains("index sqlite_autoindex_contents_1"))
        {
            rebuilt += 1;
            assert_eq!(recorded_changes(&state).await, before);
            assert_eq!(state.usage_rows(IDENTITY).await.unwrap(), marks);
            assert_eq!(set_aside_databases(&place.path()).unwrap(), [] as [std::path::PathBuf; 0]);
        }
        assert_eq!(state.check().await.unwrap(), NOTHING);
    }
    assert!(rebuilt > 0);
}

#[tokio::test]
async fn a_damaged_log_loses_only_changes_that_were_not_checkpointed() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 3).await;
    state.close().await;
    fill(&state, 5).await;
    let mut seeded = Seeded(3);
    for _ in 0..12 {
        let after = StateFolder::new();
        fs::copy(place.path(), after.path()).unwrap();
        let mut wal = fs::read(place.path().with_file_name("state.db-wal")).unwrap();
        let offset = seeded.below(wal.len());
        wal[offset] ^= 0x40;
        fs::write(after.path().with_file_name("state.db-wal"), wal).unwrap();
        let state = use_and_repair(&after).await;
        assert!(recorded_changes(&state).await.len() >= 4);
        assert_eq!(state.last_repair(), None);
    }
}

#[tokio::test]
async fn the_files_of_a_database_are_set_aside_together() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, MEMORIES).await;
    state.close().await;
    fill(&state, 1).await;
    let mut bytes = fs::read(place.path()).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    fs::write(place.path(), &bytes).unwrap();
    let other = place.state();
    other.repair().await.unwrap().unwrap();
    fill(&state, 1).await;
    other.close().await;
    state.close().await;
    let expected = [
        "state.db",
        "state.db.damaged-1",
        "state.db.damaged-1-shm",
        "state.db.damaged-1-wal",
        "state.db.lock",
    ];
    assert_eq!(place.names(), expected);
}

#[tokio::test]
async fn a_flipped_byte_in_the_name_of_a_column_sets_the_database_aside() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 3).await;
    state.close().await;
    place.run("ALTER TABLE heads RENAME COLUMN trust TO tqust").await;
    let state = place.state();
    // The call that finds the damage repairs it.
    let id = state.record(write("two", "new.md", "new").build()).await.unwrap();
    let reason = state.last_repair().unwrap().reason;
    assert_eq!(reason, "the table `heads` is missing or changed");
    assert_eq!(state.check().await.unwrap(), NOTHING);
    assert_eq!(recorded_changes(&state).await, [id]);
}

#[tokio::test]
async fn a_later_schema_is_left_unchanged() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 1).await;
    state.close().await;
    place
        .run(
            "INSERT INTO _sqlx_migrations SELECT 11, 'later', installed_on, 1, checksum, 0
            FROM _sqlx_migrations WHERE version = 1",
        )
        .await;
    let before = fs::read(place.path()).unwrap();
    let state = place.state();
    let read = state.usage_rows(IDENTITY).await.unwrap_err();
    let wrote = state.record(write("one", "a.md", "a").build()).await.unwrap_err();
    for error in [read, wrote] {
        assert!(matches!(error, StateError::Newer { found: 11, known: 10, .. }), "{error:?}");
    }
    assert_eq!(fs::read(place.path()).unwrap(), before);
    assert_eq!(state.last_repair(), None);
}

#[tokio::test]
async fn invalid_rows_are_skipped() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 5).await;
    state.close().await;
    for sql in [
        "UPDATE marks SET pinned = 7 WHERE path = 'm0.md'",
        "UPDATE marks SET uses = -1 WHERE path = 'm1.md'",
        "UPDATE marks SET path = '../m2.md' WHERE path = 'm2.md'",
        "UPDATE changes SET kind = 'nonsense' WHERE id = 1",
        "UPDATE change_files SET trust = 'blind' WHERE change_id = 2",
        "UPDATE heads SET revision = x'00' WHERE path = 'm3.md'",
    ] {
        place.run(sql).await;
    }
    let marks = state.usage_rows(IDENTITY).await.unwrap();
    let heads = state.heads("one", ChangeId(0)).await.unwrap();
    let names = |paths: Vec<String>| paths.join(" ");
    assert_eq!(names(marks.iter().map(|mark| mark.path.to_string()).collect()), "m3.md m4.md");
    let heads = names(heads.iter().map(|head| head.path.to_string()).collect());
    assert_eq!(heads, "m0.md m1.md m2.md m4.md");
    assert_eq!(recorded_changes(&state).await, [2, 3, 4, 5].map(ChangeId));
    assert_eq!(state.repair().await.unwrap(), None);
}

#[tokio::test]
async fn corrupt_contents_are_never_returned() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 2).await;
    state.close().await;
    place.run("UPDATE contents SET bytes = zeroblob(length(bytes)) WHERE id = 1").await;
    let revision = |number| Revision::digest(format!("text {number}\n").repeat(40).as_bytes());
    let error = state.content(&revision(0)).await.unwrap_err();
    assert!(matches!(error, StateError::Damaged { .. }), "{error:?}");
    assert!(state.content(&revision(1)).await.unwrap().is_some());
    let open = state.open_changes("one").await.unwrap();
    assert_eq!(open.iter().map(|open| open.files.len()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(state.check().await.unwrap(), ["1 stored contents do not match their digest"]);
    let repair = state.repair().await.unwrap().unwrap();
    assert_eq!(
        repair.to_string(),
        "the state database was damaged and repaired in place: 1 stored contents do not match their digest"
    );
    assert_eq!(state.content(&revision(0)).await.unwrap(), None);
    assert!(state.content(&revision(1)).await.unwrap().is_some());
    assert_eq!(state.check().await.unwrap(), NOTHING);
    assert_eq!(recorded_changes(&state).await.len(), 2);
}

#[tokio::test]
async fn rows_that_contradict_each_other_are_repaired_in_place() {
    let place = StateFolder::new();
    let state = place.state();
    let before = fill(&state, 4).await;
    for (sql, found) in [
        ("DELETE FROM changes WHERE id = 4", "1 files belong to a missing change"),
        ("DELETE FROM contents WHERE id = 1", "1 memories' latest bytes are missing"),
        ("UPDATE totals SET changes = 77", "1 totals are wrong"),
        (
            "DELETE FROM open_changes WHERE what = 'change' AND change_id = 2",
            "replaced values belong to no open change",
        ),
        (
            "INSERT INTO runs (task, attempt, runner, started_at) VALUES ('gone', 1, 'x', 1)",
            "1 runs belong to a missing task",
        ),
    ] {
        place.run(sql).await;
        let problems = state.check().await.unwrap();
        assert!(problems.iter().any(|problem| problem.contains(found)), "{sql}: {problems:?}");
        assert_eq!(state.repair().await.unwrap().unwrap().set_aside, None, "{sql}");
        assert_eq!(state.check().await.unwrap(), NOTHING, "{sql}");
    }
    assert_eq!(recorded_changes(&state).await, before[..3]);
    assert!(fill(&state, 1).await > before, "no number is reused");
}

#[tokio::test]
async fn change_numbers_of_a_set_aside_database_are_not_reused() {
    let place = StateFolder::new();
    let state = place.state();
    let mut before = fill(&state, 4).await;
    // The last number in the damaged database counts too, if it can be read.
    place.run("UPDATE totals SET last_change = 5000000").await;
    place.run("DROP TABLE sessions").await;
    assert!(state.repair().await.unwrap().unwrap().set_aside.is_some());
    let after = fill(&state, 1).await;
    assert!(after[0] > ChangeId(5_000_000), "{after:?}");
    before.extend(after);
    for _ in 0..3 {
        state.close().await;
        fs::write(place.path(), "no database at all".repeat(100)).unwrap();
        before.extend(fill(&state, 3).await);
        before.extend(fill(&place.state(), 3).await);
    }
    let mut distinct = before.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), before.len(), "{before:?}");
    assert_eq!(set_aside_databases(&place.path()).unwrap().len(), 4);
}

#[tokio::test]
async fn an_interrupted_set_aside_is_completed() {
    let place = StateFolder::new();
    fs::write(place.path().with_file_name("state.db.damaged-1"), "damaged").unwrap();
    fs::write(place.path().with_file_name("state.db-wal"), "of the damaged").unwrap();
    let state = place.state();
    assert_eq!(recorded_changes(&state).await, []);
    fill(&state, 1).await;
    state.close().await;
    let expected = ["state.db", "state.db.damaged-1", "state.db.damaged-1-wal", "state.db.lock"];
    assert_eq!(place.names(), expected);
    let log = fs::read(place.path().with_file_name("state.db.damaged-1-wal")).unwrap();
    assert_eq!(log, b"of the damaged");
    // The log of a database that a person removed does not overwrite an earlier one.
    fs::remove_file(place.path()).unwrap();
    fs::write(place.path().with_file_name("state.db-wal"), "of another").unwrap();
    fill(&place.state(), 1).await;
    let log = fs::read(place.path().with_file_name("state.db.damaged-1-wal")).unwrap();
    assert_eq!(log, b"of the damaged");
    let log = fs::read(place.path().with_file_name("state.db.damaged-2-wal")).unwrap();
    assert_eq!(log, b"of another");
}

//! Claims about damaged databases: they are replaced, what is sound is kept, nothing fails for long.

use std::fs;

use memory::change::ChangeId;
use memory::document::Revision;
use state::{Mark, SqliteState, State, StateError};
use testkit::conformance::state::{edit, path, time, write};

use crate::support::{Place, Seeded, fill, recorded};

const MEMORIES: usize = 60;
const IDENTITY: &str = "project:quipu";

/// Returns the bytes of a sound database with [`MEMORIES`] memories, all pinned.
async fn sound() -> (Vec<u8>, Vec<Mark>) {
    let place = Place::new();
    let state = place.state();
    let ids = fill(&state, MEMORIES).await;
    for number in 0..MEMORIES {
        let path = path(&format!("m{number}.md"));
        state.set_pin((IDENTITY, &path), true, time(1)).await.unwrap();
    }
    state.settle(&ids).await.unwrap();
    let marks = state.marks(IDENTITY).await.unwrap();
    state.close().await;
    (fs::read(place.path()).unwrap(), marks)
}

/// Uses a database in every way; whatever is wrong with it, this ends with a sound one.
async fn use_and_repair(place: &Place) -> SqliteState {
    let state = place.state();
    let damage = "damage heals or is named as such";
    let named = |error: &StateError| {
        assert!(
            matches!(error, StateError::Damaged { .. } | StateError::Failed { .. }),
            "{error:?}"
        );
    };
    state.marks(IDENTITY).await.inspect_err(named).map(drop).unwrap_or_default();
    state.heads("one", ChangeId(0)).await.inspect_err(named).map(drop).unwrap_or_default();
    let made = edit("one", "m0.md", (&"text 0\n".repeat(40), "other")).uses("m0.md");
    state.record(made.to_record()).await.inspect_err(named).map(drop).unwrap_or_default();
    state.repair().await.expect(damage);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    let id = state.record(write("two", "new.md", "new").uses("new.md").to_record()).await.unwrap();
    assert_eq!(recorded(&state).await.last(), Some(&id));
    state
}

/// Checks that what is left of the marks is what was there, apart from those that the test made.
async fn marks_are_of(state: &SqliteState, sound: &[Mark]) -> usize {
    let left = state.marks(IDENTITY).await.unwrap();
    let same = left.iter().filter(|mark| sound.contains(mark)).count();
    assert!(left.len() - same <= 2, "{left:?}");
    same
}

#[tokio::test]
async fn whatever_is_not_a_database_is_set_aside() {
    let (sound, _) = sound().await;
    let header = sound.get(..100).unwrap();
    let cases: [&[u8]; 5] = [
        b"x",
        &[0; 4096],
        &[0xff; 10_000],
        b"# Notes\n\nThese are somebody's notes, and no database at all.\n",
        header,
    ];
    for bytes in cases {
        let place = Place::new();
        fs::write(place.path(), bytes).unwrap();
        let state = place.state();
        assert_eq!(state.marks(IDENTITY).await.unwrap(), []);
        fill(&state, 1).await;
        let healed = state.healed().unwrap_or_else(|| panic!("{bytes:?}"));
        assert_eq!(fs::read(&healed.set_aside).unwrap(), bytes);
        assert_eq!(healed.rows_kept, 0);
        assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    }
}

#[tokio::test]
async fn an_empty_file_is_a_new_database() {
    let place = Place::new();
    fs::write(place.path(), "").unwrap();
    let state = place.state();
    assert_eq!(state.marks(IDENTITY).await.unwrap(), []);
    fill(&state, 1).await;
    assert_eq!(state.healed(), None);
}

#[tokio::test]
async fn a_database_of_something_else_is_set_aside() {
    let place = Place::new();
    place.run("CREATE TABLE recipes (name TEXT)").await;
    let state = place.state();
    fill(&state, 1).await;
    let healed = state.healed().unwrap();
    assert_eq!(
        healed.reason,
        "the database cannot be read: the file is a database of something else"
    );
    assert_eq!(healed.set_aside, place.path().with_file_name("state.db.damaged-1"));
}

#[tokio::test]
async fn a_database_cut_short_anywhere_heals() {
    let (sound, marks) = sound().await;
    let mut seeded = Seeded(20_261_122);
    let mut kept = 0;
    for _ in 0..24 {
        let place = Place::new();
        let length = seeded.below(sound.len() - 1) + 1;
        fs::write(place.path(), &sound[..length]).unwrap();
        let state = use_and_repair(&place).await;
        kept += marks_are_of(&state, &marks).await;
        assert!(state.healed().is_some(), "cut at {length}");
    }
    assert!(kept > 0, "something is saved somewhere");
}

#[tokio::test]
async fn flipped_bytes_never_make_it_unusable() {
    let (sound, marks) = sound().await;
    let pages = sound.len() / 4096;
    let mut seeded = Seeded(7);
    let mut kept = 0;
    for round in 0..48 {
        let place = Place::new();
        let mut bytes = sound.clone();
        // Up to one and a half bits a page, whatever the size.
        for _ in 0..((round + 1) * pages).div_ceil(30) {
            let at = seeded.below(bytes.len());
            bytes[at] ^= 1 << seeded.below(8);
        }
        fs::write(place.path(), &bytes).unwrap();
        let state = use_and_repair(&place).await;
        // A flipped bit in a name or a count is a different, possible one; so only most are the same.
        let left = state.marks(IDENTITY).await.unwrap();
        kept += left.iter().filter(|mark| marks.contains(mark)).count();
    }
    assert!(kept > 24 * MEMORIES, "most is saved: {kept}");
}

#[tokio::test]
async fn pages_overwritten_in_the_middle_cost_only_what_was_on_them() {
    let (sound, marks) = sound().await;
    let pages = sound.len() / 4096;
    let mut kept = 0;
    for page in 1..pages {
        let place = Place::new();
        let mut bytes = sound.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(place.path(), &bytes).unwrap();
        let state = use_and_repair(&place).await;
        kept += marks_are_of(&state, &marks).await;
    }
    assert!(kept > (pages - 6) * MEMORIES, "{kept} marks kept over {pages} pages");
}

#[tokio::test]
async fn a_damaged_write_ahead_file_costs_only_what_was_not_written_back() {
    let place = Place::new();
    let state = place.state();
    fill(&state, 3).await;
    state.close().await;
    fill(&state, 5).await;
    let mut seeded = Seeded(3);
    for _ in 0..12 {
        let after = Place::new();
        fs::copy(place.path(), after.path()).unwrap();
        let mut wal = fs::read(place.path().with_file_name("state.db-wal")).unwrap();
        let at = seeded.below(wal.len());
        wal[at] ^= 0x40;
        fs::write(after.path().with_file_name("state.db-wal"), wal).unwrap();
        let state = use_and_repair(&after).await;
        assert!(recorded(&state).await.len() >= 4);
        assert_eq!(state.healed(), None);
    }
}

#[tokio::test]
async fn a_flipped_byte_in_the_name_of_a_column_heals() {
    let place = Place::new();
    let state = place.state();
    fill(&state, 3).await;
    state.close().await;
    place.run("ALTER TABLE heads RENAME COLUMN trust TO tqust").await;
    let state = place.state();
    // Whoever stumbles over it has it healed.
    state.record(write("two", "new.md", "new").to_record()).await.unwrap();
    assert!(state.healed().is_some());
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(recorded(&state).await.len(), 4, "the other tables are kept");
}

#[tokio::test]
async fn a_later_schema_is_left_alone() {
    let place = Place::new();
    let state = place.state();
    fill(&state, 1).await;
    state.close().await;
    place
        .run(
            "INSERT INTO _sqlx_migrations SELECT 10, 'later', installed_on, 1, checksum, 0
            FROM _sqlx_migrations WHERE version = 1",
        )
        .await;
    let before = fs::read(place.path()).unwrap();
    let state = place.state();
    let read = state.marks(IDENTITY).await.unwrap_err();
    let wrote = state.record(write("one", "a.md", "a").to_record()).await.unwrap_err();
    for error in [read, wrote] {
        assert!(matches!(error, StateError::Newer { found: 10, known: 9, .. }), "{error:?}");
    }
    assert_eq!(fs::read(place.path()).unwrap(), before);
    assert_eq!(state.healed(), None);
}

#[tokio::test]
async fn rows_that_cannot_be_are_passed_over_and_repaired_away() {
    let place = Place::new();
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
    let numbers = |ids: Vec<ChangeId>| ids.into_iter().map(|id| id.0).collect::<Vec<_>>();
    let seen = async |state: &SqliteState| {
        let marks = state.marks(IDENTITY).await.unwrap();
        let heads = state.heads("one", ChangeId(0)).await.unwrap();
        let names = |paths: Vec<String>| paths.join(" ");
        (
            names(marks.iter().map(|mark| mark.path.to_string()).collect()),
            names(heads.iter().map(|head| head.path.to_string()).collect()),
            numbers(recorded(state).await),
        )
    };
    let expected =
        ("m3.md m4.md".to_owned(), "m0.md m1.md m2.md m4.md".to_owned(), vec![2, 3, 4, 5]);
    assert_eq!(seen(&state).await, expected);
    assert_eq!(
        state.check().await.unwrap(),
        [
            "3 rows of `marks` hold what cannot be",
            "1 rows of `changes` hold what cannot be",
            "1 rows of `change_files` hold what cannot be",
            "1 rows of `heads` hold what cannot be",
        ]
    );
    let healed = state.repair().await.unwrap().unwrap();
    assert_eq!(state.healed(), Some(healed));
    assert_eq!(seen(&state).await, expected);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(state.repair().await.unwrap(), None);
}

#[tokio::test]
async fn kept_bytes_that_rotted_are_never_handed_out() {
    let place = Place::new();
    let state = place.state();
    fill(&state, 2).await;
    state.close().await;
    place.run("UPDATE contents SET bytes = zeroblob(length(bytes)) WHERE id = 1").await;
    let revision = |number| Revision::of(format!("text {number}\n").repeat(40).as_bytes());
    let error = state.content(&revision(0)).await.unwrap_err();
    assert!(matches!(error, StateError::Damaged { .. }), "{error:?}");
    assert!(state.content(&revision(1)).await.unwrap().is_some());
    let open = state.open_changes("one").await.unwrap();
    assert_eq!(open.iter().map(|open| open.files.len()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(state.check().await.unwrap(), ["1 rows of `contents` hold what cannot be"]);
    state.repair().await.unwrap().unwrap();
    assert_eq!(state.content(&revision(0)).await.unwrap(), None);
    assert!(state.content(&revision(1)).await.unwrap().is_some());
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
}

#[tokio::test]
async fn numbers_lost_with_the_damage_are_not_given_again() {
    let place = Place::new();
    let state = place.state();
    let before = fill(&state, 4).await;
    place.run("DELETE FROM changes WHERE id > 2").await;
    place.run("UPDATE marks SET uses = -1 WHERE path = 'm0.md'").await;
    state.repair().await.unwrap().unwrap();
    let after = fill(&state, 1).await;
    assert!(after > before, "{after:?}");
}

#[tokio::test]
async fn a_healing_that_was_cut_short_is_finished() {
    let place = Place::new();
    let state = place.state();
    let ids = fill(&state, 3).await;
    state.close().await;
    // The damaged file is moved away, the complete new one is not in its place yet.
    fs::rename(place.path(), place.path().with_file_name("state.db.healing")).unwrap();
    fs::write(place.path().with_file_name("state.db.damaged-1"), "damaged").unwrap();
    fs::write(place.path().with_file_name("state.db-wal"), "of the damaged").unwrap();
    assert_eq!(recorded(&place.state()).await, ids);
    let expected = ["state.db", "state.db.damaged-1", "state.db.damaged-1-wal", "state.db.lock"];
    let names = place.names();
    assert!(expected.iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
}

#[tokio::test]
async fn a_half_built_replacement_is_thrown_away() {
    let place = Place::new();
    fs::write(place.path(), "damaged ".repeat(1000)).unwrap();
    fs::write(place.path().with_file_name("state.db.healing"), "half").unwrap();
    fs::write(place.path().with_file_name("state.db.healing-wal"), "half").unwrap();
    let state = place.state();
    fill(&state, 1).await;
    state.close().await;
    assert_eq!(place.names(), ["state.db", "state.db.damaged-1", "state.db.lock"]);
}

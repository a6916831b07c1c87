//! Tests of changes, heads and stored contents.

use std::sync::Arc;

use memory::change::{Actor, ChangeId, ChangeKind, DatabaseId, MemoryChange, Provenance, Trust};
use memory::document::Revision;
use state::{ChangeQuery, Head, HistoryStore, NewChange, OpenChange, OpenFile, Stats};

use super::builders::{ChangeBuilder, IDENTITY, edit, files, path, remove, rename, time, write};

pub(super) async fn check_all(make: &impl AsyncFn() -> Arc<dyn HistoryStore>) {
    an_empty_state_reads_as_empty(&*make().await).await;
    a_database_keeps_its_identity(make).await;
    a_change_is_read_as_it_was_recorded(&*make().await).await;
    an_open_change_has_its_new_bytes_until_it_is_durable(&*make().await).await;
    open_changes_are_listed_oldest_first_in_every_place_they_touch(&*make().await).await;
    heads_are_the_last_recorded_revisions(&*make().await).await;
    influenced_texts_are_listed_until_a_person_accepts_them(&*make().await).await;
    a_head_is_returned_only_after_a_later_change(&*make().await).await;
    order_is_by_number_when_the_clock_goes_back(&*make().await).await;
    every_field_of_a_query_narrows_the_result(&*make().await).await;
    the_last_changes_of_several_memories_are_found_in_one_query(&*make().await).await;
    a_path_query_finds_renames_and_everything_below(&*make().await).await;
    bytes_that_do_not_match_their_revision_are_refused(&*make().await).await;
    equal_bytes_are_stored_once(&*make().await).await;
    a_change_of_many_memories_is_one_change(&*make().await).await;
    a_state_that_was_closed_opens_again(&*make().await).await;
}

/// Returns the change as it must be read.
pub(super) fn expected_change(id: ChangeId, new: &NewChange) -> MemoryChange {
    MemoryChange {
        id,
        at: new.at,
        kind: new.kind,
        provenance: new.provenance.clone(),
        undoes: new.undoes,
        folder: new.folder.clone(),
        files: new.files.iter().map(|file| file.change.clone()).collect(),
    }
}

pub(super) async fn record(state: &dyn HistoryStore, builder: &ChangeBuilder) -> ChangeId {
    state.record(builder.build()).await.unwrap()
}

fn all() -> ChangeQuery {
    ChangeQuery { max: usize::MAX, ..ChangeQuery::default() }
}

async fn an_empty_state_reads_as_empty(state: &dyn HistoryStore) {
    let revision = Revision::digest(b"nothing");
    assert_eq!(state.open_changes("one").await.unwrap(), []);
    assert_eq!(state.heads("one", ChangeId(0)).await.unwrap(), []);
    assert_eq!(state.changes(&all()).await.unwrap(), []);
    assert_eq!(state.change(ChangeId(1)).await.unwrap(), None);
    assert_eq!(state.content(&revision).await.unwrap(), None);
    assert_eq!(state.usage_rows("project:lukasa").await.unwrap(), []);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    state.mark_durable(&[]).await.unwrap();
    state.mark_durable(&[ChangeId(7)]).await.unwrap();
    state.abort_change(ChangeId(7)).await.unwrap();
    let counted = state.stats().await.unwrap();
    assert_eq!(Stats { database_bytes: 0, ..counted }, Stats::default());
}

async fn a_database_keeps_its_identity(make: &impl AsyncFn() -> Arc<dyn HistoryStore>) {
    let (one, other) = (make().await, make().await);
    let id = one.database_id().await.unwrap();
    assert_ne!(id, DatabaseId::NONE);
    assert_ne!(id, other.database_id().await.unwrap());
    one.close().await;
    assert_eq!(one.database_id().await.unwrap(), id);
}

async fn a_change_is_read_as_it_was_recorded(state: &dyn HistoryStore) {
    let mut builder = edit("one", "a.md", ("old", "new"))
        .merge(rename("two", ("b.md", "c/d.md"), "moved"))
        .merge(remove("one", "gone.md", "gone"))
        .folder("one", "notes", Some("notes/old notes"))
        .undoes(ChangeId(40))
        .at(3);
    builder.0.provenance = Provenance {
        actor: Actor::Dream,
        trust: Trust::Background,
        origin: "dream".to_owned(),
        client: Some("client/1.0".to_owned()),
        session: Some("session".to_owned()),
        task: Some("task".to_owned()),
        tool_call: Some("call".to_owned()),
        model: Some("model \u{1f9f6} 'quoted'".to_owned()),
        note: Some("a note\nof two lines".to_owned()),
    };
    let id = record(state, &builder).await;
    let expected = expected_change(id, &builder.0);
    assert_eq!(state.change(id).await.unwrap(), Some(expected.clone()));
    assert_eq!(state.changes(&all()).await.unwrap(), [expected]);
    for text in ["old", "new", "moved", "gone"] {
        let stored = state.content(&Revision::digest(text.as_bytes())).await.unwrap();
        assert_eq!(stored, Some(text.as_bytes().to_vec()), "{text}");
    }
}

async fn an_open_change_has_its_new_bytes_until_it_is_durable(state: &dyn HistoryStore) {
    let builder = remove("one", "gone.md", "gone")
        .merge(write("one", "a.md", "new"))
        .merge(rename("one", ("b.md", "c.md"), "moved"))
        .merge(write("one", "empty.md", ""));
    let id = record(state, &builder).await;
    let expected = OpenChange {
        change: expected_change(id, &builder.0),
        files: vec![
            OpenFile { index: 1, bytes: b"new".to_vec() },
            OpenFile { index: 3, bytes: Vec::new() },
        ],
    };
    assert_eq!(state.open_changes("one").await.unwrap(), [expected]);
    assert_eq!(state.stats().await.unwrap().open, 1);
    state.mark_durable(&[id]).await.unwrap();
    assert_eq!(state.open_changes("one").await.unwrap(), []);
    assert_eq!(state.stats().await.unwrap().open, 0);
    assert_eq!(state.change(id).await.unwrap(), Some(expected_change(id, &builder.0)));
}

async fn open_changes_are_listed_oldest_first_in_every_place_they_touch(state: &dyn HistoryStore) {
    let both = record(state, &write("one", "a.md", "a").merge(write("two", "a.md", "a"))).await;
    let one = record(state, &write("one", "b.md", "b")).await;
    let folder = files(ChangeKind::Delete, Vec::new()).folder("two", "empty", None);
    let folder = record(state, &folder).await;
    let open = async |place| {
        let open = state.open_changes(place).await.unwrap();
        open.into_iter().map(|open| open.change.id).collect::<Vec<_>>()
    };
    assert_eq!(open("one").await, [both, one]);
    assert_eq!(open("two").await, [both, folder]);
    assert_eq!(open("three").await, []);
    state.mark_durable(&[both, folder]).await.unwrap();
    assert_eq!((open("one").await, open("two").await), (vec![one], vec![]));
}

pub(super) fn head(at: &str, text: Option<&str>, change: ChangeId) -> Head {
    let revision = text.map(|text| Revision::digest(text.as_bytes()));
    Head { path: path(at), revision, trust: Trust::Agent, change }
}

async fn heads_are_the_last_recorded_revisions(state: &dyn HistoryStore) {
    let first = record(state, &write("one", "a.md", "1").merge(write("one", "b.md", "b"))).await;
    let edited = record(state, &edit("one", "a.md", ("1", "2"))).await;
    let moved = record(state, &rename("one", ("a.md", "x/a.md"), "2")).await;
    let removed = record(state, &remove("one", "b.md", "b")).await;
    assert!(first < edited && edited < moved && moved < removed);
    let expected =
        [head("a.md", None, moved), head("x/a.md", Some("2"), moved), head("b.md", None, removed)];
    assert_eq!(state.heads("one", ChangeId(0)).await.unwrap(), expected);
    assert_eq!(state.heads("two", ChangeId(0)).await.unwrap(), []);
    let again = record(state, &write("one", "b.md", "back")).await;
    let heads = state.heads("one", moved).await.unwrap();
    assert_eq!(heads, [head("b.md", Some("back"), again)]);
}

async fn influenced_texts_are_listed_until_a_person_accepts_them(state: &dyn HistoryStore) {
    let revision = |text: &str| Revision::digest(text.as_bytes());
    let influenced = async || {
        let influenced = state.influenced_revisions(IDENTITY).await.unwrap();
        let mut influenced: Vec<_> = influenced.into_iter().collect();
        influenced.sort_by_key(|(_, change)| *change);
        influenced
    };
    record(state, &write("one", "a.md", "clean")).await;
    assert_eq!(influenced().await, []);
    let first = record(state, &write("one", "b.md", "b").influenced()).await;
    let second = record(state, &edit("one", "a.md", ("clean", "carried")).influenced()).await;
    assert_eq!(influenced().await, [(revision("b"), first), (revision("carried"), second)]);
    assert!(state.influenced_revisions("project:other").await.unwrap().is_empty());
    let again = record(state, &write("two", "c.md", "b").influenced()).await;
    assert_eq!(influenced().await, [(revision("carried"), second), (revision("b"), again)]);
    state.abort_change(again).await.unwrap();
    assert_eq!(influenced().await, [(revision("b"), first), (revision("carried"), second)]);
    // Recorded again by another agent, the text stays influenced; recorded by a person, it no longer is.
    record(state, &write("two", "d.md", "b")).await;
    assert_eq!(influenced().await.len(), 2);
    record(state, &edit("one", "b.md", ("b", "b")).by_person()).await;
    assert_eq!(influenced().await, [(revision("carried"), second)]);
}

async fn a_head_is_returned_only_after_a_later_change(state: &dyn HistoryStore) {
    let first = record(state, &write("one", "a.md", "a")).await;
    let second = record(state, &write("one", "b.md", "b")).await;
    let other = record(state, &write("two", "c.md", "c")).await;
    let after = async |id| state.heads("one", id).await.unwrap();
    assert_eq!(after(first).await, [head("b.md", Some("b"), second)]);
    assert_eq!(after(second).await, []);
    assert_eq!(after(other).await, []);
}

async fn order_is_by_number_when_the_clock_goes_back(state: &dyn HistoryStore) {
    let first = record(state, &write("one", "a.md", "a").at(500)).await;
    let second = record(state, &edit("one", "a.md", ("a", "b")).at(-500)).await;
    assert_eq!(find(state, &all()).await, [second, first]);
    let heads = state.heads("one", ChangeId(0)).await.unwrap();
    assert_eq!(heads, [head("a.md", Some("b"), second)]);
}

async fn find(state: &dyn HistoryStore, query: &ChangeQuery) -> Vec<ChangeId> {
    state.changes(query).await.unwrap().into_iter().map(|change| change.id).collect()
}

async fn every_field_of_a_query_narrows_the_result(state: &dyn HistoryStore) {
    let a = record(state, &write("one", "a.md", "a").at(10).task("t1")).await;
    let b = record(state, &write("two", "a.md", "a").at(20).task("t2").session("s")).await;
    let c = record(state, &write("three", "a.md", "a").at(30).task("t1")).await;
    let d = record(state, &files(ChangeKind::Delete, vec![]).at(40).folder("one", "f", None)).await;
    let places = |places: &[&str]| places.iter().map(|&place| place.to_owned()).collect();
    let rows: [(ChangeQuery, &[ChangeId]); 15] = [
        (all(), &[d, c, b, a]),
        (ChangeQuery { max: 2, ..all() }, &[d, c]),
        (ChangeQuery { max: 0, ..all() }, &[]),
        (ChangeQuery { before: Some(c), ..all() }, &[b, a]),
        (ChangeQuery { after: Some(a), before: Some(d), ..all() }, &[c, b]),
        (ChangeQuery { places: places(&["one"]), ..all() }, &[d, a]),
        (ChangeQuery { places: places(&["two", "three"]), ..all() }, &[c, b]),
        (ChangeQuery { places: places(&["nowhere"]), ..all() }, &[]),
        (ChangeQuery { task: Some("t1".to_owned()), ..all() }, &[c, a]),
        (ChangeQuery { session: Some("s".to_owned()), ..all() }, &[b]),
        (ChangeQuery { actor: Some(Actor::Dream), ..all() }, &[]),
        (ChangeQuery { since: Some(time(20)), ..all() }, &[d, c, b]),
        (ChangeQuery { until: Some(time(20)), ..all() }, &[b, a]),
        (ChangeQuery { since: Some(time(20)), until: Some(time(30)), max: 1, ..all() }, &[c]),
        (ChangeQuery { task: Some("t1".to_owned()), before: Some(c), ..all() }, &[a]),
    ];
    for (query, expected) in rows {
        assert_eq!(find(state, &query).await, expected, "{query:?}");
    }
}

async fn the_last_changes_of_several_memories_are_found_in_one_query(state: &dyn HistoryStore) {
    let a = record(state, &write("one", "a.md", "a").at(10)).await;
    let elsewhere = record(state, &write("two", "a.md", "x").at(20)).await;
    let b = record(state, &write("one", "b.md", "b").at(30).task("t")).await;
    let moved = record(state, &rename("one", ("a.md", "c.md"), "a").at(40)).await;
    let again = record(state, &write("one", "a.md", "new").at(50)).await;
    let edited = record(state, &edit("one", "a.md", ("new", "newer")).at(60)).await;
    let gone = record(state, &remove("one", "b.md", "b").at(70)).await;
    let found = async |place: &str, paths: &[&str], max: usize| {
        let paths: Vec<_> = paths.iter().map(|&name| path(name)).collect();
        let found = state.last_changes(place, &paths, max).await.unwrap();
        found.into_iter().map(|change| (change.path.to_string(), change.id)).collect::<Vec<_>>()
    };
    let named = |all: &[(&str, ChangeId)]| {
        all.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect::<Vec<_>>()
    };
    assert_eq!(
        found("one", &["c.md", "none.md", "a.md", "b.md"], 9).await,
        named(&[
            ("c.md", moved),
            ("a.md", edited),
            ("a.md", again),
            ("a.md", a),
            ("b.md", gone),
            ("b.md", b),
        ]),
        "a rename belongs to the new path"
    );
    assert_eq!(
        found("one", &["a.md", "b.md"], 1).await,
        named(&[("a.md", edited), ("b.md", gone)])
    );
    assert_eq!(found("two", &["a.md"], 9).await, named(&[("a.md", elsewhere)]));
    assert_eq!(found("one", &[], 9).await, []);
    let last = state.last_changes("one", &[path("a.md")], 1).await.unwrap().remove(0);
    let (before, after) = (Some(Revision::digest(b"new")), Some(Revision::digest(b"newer")));
    assert_eq!((last.before, last.after, last.at), (before, after, time(60)));
    assert_eq!((last.actor, last.trust, last.model), (Actor::Agent, Trust::Agent, None));
}

async fn a_path_query_finds_renames_and_everything_below(state: &dyn HistoryStore) {
    let a = record(state, &write("one", "notes/a.md", "a")).await;
    let near = record(state, &write("one", "notes2/a.md", "a")).await;
    let dash = record(state, &write("one", "notes-old.md", "a")).await;
    let moved = record(state, &rename("one", ("notes/a.md", "kept/b.md"), "a")).await;
    let wild = record(state, &write("one", "n_tes/100%.md", "a")).await;
    let folder = files(ChangeKind::Rename, vec![]).folder("one", "kept/deep", Some("notes/deeper"));
    let folder = record(state, &folder).await;
    let elsewhere = record(state, &write("two", "notes/a.md", "a")).await;
    let rows: [(&str, &[ChangeId]); 9] = [
        ("notes", &[folder, moved, a]),
        ("notes/a.md", &[moved, a]),
        ("kept", &[folder, moved]),
        ("kept/b.md", &[moved]),
        ("notes2", &[near]),
        ("notes-old.md", &[dash]),
        ("n_tes", &[wild]),
        ("n_tes/100%.md", &[wild]),
        ("note", &[]),
    ];
    for (at, expected) in rows {
        let places = vec!["one".to_owned(), "two".to_owned()];
        let query = ChangeQuery { places, path: Some(path(at)), ..all() };
        assert_eq!(find(state, &query).await, expected, "{at}");
    }
    let anywhere = ChangeQuery { path: Some(path("notes/a.md")), ..all() };
    assert_eq!(find(state, &anywhere).await, [elsewhere, moved, a]);
}

async fn bytes_that_do_not_match_their_revision_are_refused(state: &dyn HistoryStore) {
    let mut wrong = write("one", "a.md", "right").uses("a.md").build();
    wrong.files[0].after = Some(Arc::from(b"wrong".as_slice()));
    state.record(wrong).await.unwrap_err();
    assert_eq!(state.changes(&all()).await.unwrap(), []);
    assert_eq!(state.heads("one", ChangeId(0)).await.unwrap(), []);
    assert_eq!(state.usage_rows("project:lukasa").await.unwrap(), []);
}

async fn equal_bytes_are_stored_once(state: &dyn HistoryStore) {
    let text = "the same words again and again and again and again\n".repeat(9);
    record(state, &write("one", "a.md", &text)).await;
    let once = state.stats().await.unwrap().content_bytes;
    assert!(once > 0 && once < u64::try_from(text.len()).unwrap(), "{once}");
    record(state, &write("one", "b.md", &text).merge(write("two", "c.md", &text))).await;
    assert_eq!(state.stats().await.unwrap().content_bytes, once);
}

async fn a_change_of_many_memories_is_one_change(state: &dyn HistoryStore) {
    let names = (0..500).map(|number| format!("imported/{number:03}.md"));
    let builder = names
        .map(|name| write("one", &name, &format!("text of {name}")).uses(&name))
        .reduce(|mut all, change| {
            all.0.uses.extend(change.0.uses.clone());
            all.merge(change)
        })
        .unwrap()
        .kind(ChangeKind::Import);
    let id = record(state, &builder).await;
    assert_eq!(state.change(id).await.unwrap(), Some(expected_change(id, &builder.0)));
    let open = state.open_changes("one").await.unwrap();
    assert_eq!(open.iter().map(|open| open.files.len()).collect::<Vec<_>>(), [500]);
    assert_eq!(state.heads("one", ChangeId(0)).await.unwrap().len(), 500);
    assert_eq!(state.usage_rows("project:lukasa").await.unwrap().len(), 500);
    assert_eq!(state.stats().await.unwrap().changes, 1);
}

async fn a_state_that_was_closed_opens_again(state: &dyn HistoryStore) {
    let first = record(state, &write("one", "a.md", "a")).await;
    state.close().await;
    assert_eq!(find(state, &all()).await, [first]);
    state.close().await;
    let second = record(state, &edit("one", "a.md", ("a", "b"))).await;
    assert_eq!(find(state, &all()).await, [second, first]);
}

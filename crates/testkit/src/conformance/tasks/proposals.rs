//! Tests of proposals: each is added once, visible by its roots, and decided once.

use std::time::Duration;

use memory::change::{ChangeId, RootKey, Trust};
use memory::document::Revision;
use memory::limits::{PROPOSALS_REJECTED_MAX, PROPOSALS_WAITING_MAX};
use memory::proposal::{ProposalId, ProposalStatus};
use state::{AddedProposals, HistoryStore, NewProposal, ProposalQuery, Retention, TaskStore};

use super::super::state::{root, time, write};
use super::rows::TaskAndHistoryStores;

pub(super) async fn check_all(make: &impl AsyncFn() -> TaskAndHistoryStores) {
    a_proposal_is_read_as_it_was_added(&*make().await.0).await;
    the_same_proposal_is_added_once(&*make().await.0).await;
    a_proposal_is_visible_if_all_its_roots_are(&*make().await.0).await;
    pages_contain_every_proposal_once(&*make().await.0).await;
    the_number_of_waiting_proposals_is_limited(&*make().await.0).await;
    a_proposal_is_decided_once(&make().await).await;
    a_proposal_waits_again_when_its_change_is_withdrawn(&make().await).await;
    of_concurrent_decisions_one_succeeds(&make().await).await;
    old_proposals_are_dropped_and_rejected_digests_stay(&make().await).await;
    proposal_numbers_are_not_reused(&make().await).await;
}

/// A time at which proposals of the first seconds no longer wait.
const LATE: i64 = 91 * 24 * 60 * 60;

/// Returns a proposal about memories of these places.
pub fn proposal(text: &str, places: &[&str]) -> NewProposal {
    NewProposal {
        made_at: time(1),
        origin: "dream".to_owned(),
        task: None,
        digest: Revision::digest(text.as_bytes()),
        trust: Trust::Person,
        roots: places.iter().map(|place| root(place)).collect(),
        proposal: format!("{{\"text\":\"{text}\"}}"),
    }
}

async fn add(tasks: &dyn TaskStore, new: &[NewProposal]) -> Vec<ProposalId> {
    tasks.add_proposals(new).await.unwrap().ids
}

fn roots(places: &[&str]) -> Vec<RootKey> {
    places.iter().map(|place| root(place)).collect()
}

async fn visible(tasks: &dyn TaskStore, places: &[&str]) -> Vec<ProposalId> {
    let query = ProposalQuery { roots: roots(places), after: None, max: usize::MAX };
    let found = tasks.proposals(&query).await.unwrap();
    let counted = tasks.count_proposals(&query.roots).await.unwrap();
    assert_eq!(counted, u64::try_from(found.len()).unwrap());
    found.into_iter().map(|row| row.id).collect()
}

async fn status(
    tasks: &dyn TaskStore,
    id: ProposalId,
) -> Option<(ProposalStatus, Option<ChangeId>)> {
    tasks.proposal(id).await.unwrap().map(|row| (row.status, row.change))
}

async fn a_proposal_is_read_as_it_was_added(tasks: &dyn TaskStore) {
    assert_eq!(visible(tasks, &["one"]).await, []);
    let new = NewProposal {
        task: Some("remember-1".to_owned()),
        trust: Trust::Imported,
        ..proposal("a", &["one", "two"])
    };
    let ids = add(tasks, std::slice::from_ref(&new)).await;
    let [id] = ids[..] else { panic!("{ids:?}") };
    let row = tasks.proposal(id).await.unwrap().unwrap();
    assert_eq!((row.id, row.new), (id, new));
    assert_eq!((row.status, row.decided_at, row.change), (ProposalStatus::Waiting, None, None));
    assert_eq!(tasks.proposal(ProposalId(id.0 + 1)).await.unwrap(), None);
}

async fn the_same_proposal_is_added_once(tasks: &dyn TaskStore) {
    let new = [proposal("a", &["one"]), proposal("b", &["one"]), proposal("a", &["one"])];
    let first = tasks.add_proposals(&new).await.unwrap();
    assert_eq!((first.ids.len(), first.already_known), (2, 1));
    let again = tasks.add_proposals(&new).await.unwrap();
    assert_eq!(again, AddedProposals { ids: Vec::new(), already_known: 3, left_out: 0 });
    // The same entries in another root are another proposal, unless a person rejected it.
    assert_eq!(add(tasks, &[proposal("a", &["two"])]).await.len(), 1);
    assert!(tasks.reject_proposal(first.ids[1], time(2)).await.unwrap());
    assert_eq!(add(tasks, &[proposal("b", &["one"]), proposal("b", &["two"])]).await, []);
}

async fn a_proposal_is_visible_if_all_its_roots_are(tasks: &dyn TaskStore) {
    let new = [proposal("a", &["one"]), proposal("b", &["one", "two"]), proposal("c", &["two"])];
    let ids = add(tasks, &new).await;
    assert_eq!(visible(tasks, &["one"]).await, ids[..1]);
    assert_eq!(visible(tasks, &["two"]).await, ids[2..]);
    assert_eq!(visible(tasks, &["three", "two", "one"]).await, ids);
    assert_eq!(visible(tasks, &[]).await, []);
    let other = RootKey { identity: "project:other".to_owned(), ..root("one") };
    assert_eq!(
        tasks.count_proposals(&[other]).await.unwrap(),
        0,
        "another project in the same place"
    );
}

async fn pages_contain_every_proposal_once(tasks: &dyn TaskStore) {
    let new: Vec<_> = (0..5).map(|number| proposal(&number.to_string(), &["one"])).collect();
    let ids = add(tasks, &new).await;
    let mut query = ProposalQuery { roots: roots(&["one"]), after: None, max: 2 };
    let mut listed = Vec::new();
    loop {
        let page = tasks.proposals(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(last.id);
        listed.extend(page.iter().map(|row| row.id));
    }
    assert_eq!(listed, ids);
}

async fn the_number_of_waiting_proposals_is_limited(tasks: &dyn TaskStore) {
    let new: Vec<_> =
        (0..=PROPOSALS_WAITING_MAX).map(|number| proposal(&number.to_string(), &["one"])).collect();
    let first = tasks.add_proposals(&new).await.unwrap();
    assert_eq!(
        (first.ids.len(), first.already_known, first.left_out),
        (PROPOSALS_WAITING_MAX, 0, 1)
    );
    let more = tasks.add_proposals(&[proposal("x", &["one"]), proposal("x", &["two"])]).await;
    let more = more.unwrap();
    assert_eq!((more.ids.len(), more.already_known, more.left_out), (1, 0, 1));
    assert!(tasks.reject_proposal(first.ids[0], time(2)).await.unwrap());
    assert_eq!(add(tasks, &[proposal("x", &["one"])]).await.len(), 1);
}

async fn a_proposal_is_decided_once((tasks, state): &TaskAndHistoryStores) {
    let new = [proposal("a", &["one"]), proposal("b", &["one"])];
    let ids = add(&**tasks, &new).await;
    let accepting = write("one", "a.md", "a").accepts(ids[0]).at(5).build();
    let change = state.record(accepting.clone()).await.unwrap();
    let row = tasks.proposal(ids[0]).await.unwrap().unwrap();
    assert_eq!((row.status, row.change), (ProposalStatus::Accepted, Some(change)));
    assert_eq!(row.decided_at, Some(time(5)));
    assert!(state.record(accepting).await.is_err());
    assert!(!tasks.reject_proposal(ids[0], time(6)).await.unwrap());
    assert!(tasks.reject_proposal(ids[1], time(6)).await.unwrap());
    assert!(!tasks.reject_proposal(ids[1], time(7)).await.unwrap());
    assert!(state.record(write("one", "b.md", "b").accepts(ids[1]).build()).await.is_err());
    assert!(state.record(write("one", "c.md", "c").accepts(ProposalId(99)).build()).await.is_err());
    assert_eq!(status(&**tasks, ids[1]).await, Some((ProposalStatus::Rejected, None)));
    assert_eq!(state.heads("one", ChangeId(0)).await.unwrap().len(), 1, "nothing else is recorded");
    assert_eq!(visible(&**tasks, &["one"]).await, []);
}

async fn a_proposal_waits_again_when_its_change_is_withdrawn(
    (tasks, state): &TaskAndHistoryStores,
) {
    let ids = add(&**tasks, &[proposal("a", &["one"])]).await;
    let accepting = write("one", "a.md", "a").accepts(ids[0]).build();
    let change = state.record(accepting.clone()).await.unwrap();
    state.abort_change(change).await.unwrap();
    assert_eq!(status(&**tasks, ids[0]).await, Some((ProposalStatus::Waiting, None)));
    assert!(state.record(accepting).await.is_ok());
}

async fn of_concurrent_decisions_one_succeeds((tasks, state): &TaskAndHistoryStores) {
    let ids = add(&**tasks, &[proposal("a", &["one"])]).await;
    let (a, b, c) = tokio::join!(
        state.record(write("one", "a.md", "a").accepts(ids[0]).build()),
        state.record(write("one", "b.md", "b").accepts(ids[0]).build()),
        tasks.reject_proposal(ids[0], time(2)),
    );
    let succeeded = [a.is_ok(), b.is_ok(), c.unwrap()];
    assert_eq!(succeeded.iter().filter(|succeeded| **succeeded).count(), 1, "{succeeded:?}");
}

async fn prune(state: &dyn HistoryStore, now: i64) {
    let retention = Retention { age: Duration::from_secs(10), bytes: u64::MAX };
    state.prune(retention, time(now)).await.unwrap();
}

async fn old_proposals_are_dropped_and_rejected_digests_stay(
    (tasks, state): &TaskAndHistoryStores,
) {
    let new: Vec<_> = ["a", "b", "c"].map(|text| proposal(text, &["one"])).into();
    let ids = add(&**tasks, &new).await;
    state.record(write("one", "a.md", "a").accepts(ids[0]).at(2).build()).await.unwrap();
    assert!(tasks.reject_proposal(ids[1], time(2)).await.unwrap());
    prune(&**state, 10).await;
    for id in &ids {
        assert!(status(&**tasks, *id).await.is_some(), "not old yet");
    }
    prune(&**state, 60).await;
    assert_eq!(status(&**tasks, ids[0]).await, None);
    assert_eq!(visible(&**tasks, &["one"]).await, ids[2..], "waiting proposals stay longer");
    prune(&**state, LATE).await;
    assert_eq!(status(&**tasks, ids[2]).await, None);
    let rejected = tasks.proposal(ids[1]).await.unwrap().unwrap();
    assert_eq!(rejected.new.proposal, "", "the text is dropped");
    let again = tasks.add_proposals(&new).await.unwrap();
    assert_eq!((again.ids.len(), again.already_known), (2, 1), "the rejection stays");
    const { assert!(PROPOSALS_REJECTED_MAX > PROPOSALS_WAITING_MAX) };
}

async fn proposal_numbers_are_not_reused((tasks, state): &TaskAndHistoryStores) {
    let ids = add(&**tasks, &[proposal("a", &["one"])]).await;
    prune(&**state, LATE).await;
    assert_eq!(visible(&**tasks, &["one"]).await, []);
    let later = add(&**tasks, &[proposal("a", &["one"])]).await;
    assert!(later[0] > ids[0], "{later:?}");
}

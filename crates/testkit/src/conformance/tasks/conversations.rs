//! Tests of conversations and their segments.

use memory::limits::{CONVERSATIONS_KEPT_MAX, SEGMENTS_KEPT_MAX};
use state::{
    ConversationRow, EnqueueResult, QueueLimits, SegmentRow, Status, TaskKind, TaskOutcome,
    TaskQuery, TaskStore,
};

use super::super::state::time;
use super::rows::{TaskAndHistoryStores, new_task, queue_limits};

pub(super) async fn check_all(make: &impl AsyncFn() -> TaskAndHistoryStores) {
    a_conversation_is_read_as_last_written(&*make().await.0).await;
    a_stale_version_writes_nothing(&*make().await.0).await;
    of_concurrent_writes_one_succeeds(&*make().await.0).await;
    the_least_recently_active_conversations_are_dropped(&*make().await.0).await;
    a_segment_replaces_the_one_before(&*make().await.0).await;
    the_oldest_segments_are_dropped(&*make().await.0).await;
    a_review_and_its_conversation_are_saved_together_or_not_at_all(&*make().await.0).await;
    reviews_have_their_own_queue_and_run_last(&*make().await.0).await;
    texts_kept_for_reviews_can_be_dropped(&*make().await.0).await;
}

fn row(id: &str, version: u64, second: i64) -> ConversationRow {
    ConversationRow {
        id: id.to_owned(),
        workspace: "here".to_owned(),
        version,
        last_seen_at: time(second),
        data: format!("{{\"of\":\"{id} {version}\"}}"),
    }
}

async fn a_conversation_is_read_as_last_written(tasks: &dyn TaskStore) {
    assert_eq!(tasks.conversation("one").await.unwrap(), None);
    assert!(tasks.save_conversation(row("one", 1, 1)).await.unwrap());
    assert!(tasks.save_conversation(row("two", 1, 1)).await.unwrap());
    assert!(tasks.save_conversation(row("one", 2, 3)).await.unwrap());
    assert_eq!(tasks.conversation("one").await.unwrap(), Some(row("one", 2, 3)));
    assert_eq!(tasks.conversation("two").await.unwrap(), Some(row("two", 1, 1)));
}

async fn a_stale_version_writes_nothing(tasks: &dyn TaskStore) {
    assert!(!tasks.save_conversation(row("one", 2, 1)).await.unwrap());
    assert_eq!(tasks.conversation("one").await.unwrap(), None);
    assert!(tasks.save_conversation(row("one", 1, 1)).await.unwrap());
    for late in [1, 3] {
        assert!(!tasks.save_conversation(row("one", late, 9)).await.unwrap(), "{late}");
    }
    assert_eq!(tasks.conversation("one").await.unwrap(), Some(row("one", 1, 1)));
}

async fn of_concurrent_writes_one_succeeds(tasks: &dyn TaskStore) {
    assert!(tasks.save_conversation(row("one", 1, 1)).await.unwrap());
    let (a, b) = tokio::join!(
        tasks.save_conversation(row("one", 2, 2)),
        tasks.save_conversation(row("one", 2, 2)),
    );
    assert!(a.unwrap() != b.unwrap());
}

async fn the_least_recently_active_conversations_are_dropped(tasks: &dyn TaskStore) {
    for number in 0..CONVERSATIONS_KEPT_MAX {
        let second = i64::try_from(number).unwrap() + 10;
        assert!(tasks.save_conversation(row(&number.to_string(), 1, second)).await.unwrap());
    }
    assert!(tasks.save_conversation(row("0", 2, 100_000)).await.unwrap());
    assert!(tasks.save_conversation(row("new", 1, 100_001)).await.unwrap());
    assert_eq!(tasks.conversation("1").await.unwrap(), None);
    for id in ["0", "2", "new"] {
        assert!(tasks.conversation(id).await.unwrap().is_some(), "{id}");
    }
}

fn segment(conversation: &str, segment: u64, version: u64) -> SegmentRow {
    SegmentRow {
        conversation: conversation.to_owned(),
        segment,
        version,
        updated_at: time(i64::try_from(segment).unwrap()),
        data: format!("{{\"of\":\"{conversation} {segment}\"}}"),
    }
}

async fn a_segment_replaces_the_one_before(tasks: &dyn TaskStore) {
    assert_eq!(tasks.segment("one").await.unwrap(), None);
    assert!(!tasks.save_segment(segment("one", 0, 2)).await.unwrap());
    assert!(tasks.save_segment(segment("one", 0, 1)).await.unwrap());
    assert!(tasks.save_segment(segment("two", 7, 1)).await.unwrap());
    assert!(tasks.save_segment(segment("one", 1, 2)).await.unwrap());
    assert!(!tasks.save_segment(segment("one", 9, 2)).await.unwrap(), "a stale version");
    assert_eq!(tasks.segment("one").await.unwrap(), Some(segment("one", 1, 2)));
    assert_eq!(tasks.segment("two").await.unwrap(), Some(segment("two", 7, 1)));
}

async fn the_oldest_segments_are_dropped(tasks: &dyn TaskStore) {
    for number in 0..=u64::try_from(SEGMENTS_KEPT_MAX).unwrap() {
        assert!(tasks.save_segment(segment(&number.to_string(), number, 1)).await.unwrap());
    }
    assert_eq!(tasks.segment("0").await.unwrap(), None);
    assert!(tasks.segment("1").await.unwrap().is_some());
}

async fn a_review_and_its_conversation_are_saved_together_or_not_at_all(tasks: &dyn TaskStore) {
    let review = |second| new_task("review", second);
    assert!(tasks.save_conversation_and_queue(row("one", 1, 1), review(1), 2).await.unwrap());
    // Another process wrote the conversation since.
    assert!(!tasks.save_conversation_and_queue(row("one", 1, 2), review(2), 2).await.unwrap());
    assert!(!tasks.save_conversation_and_queue(row("one", 3, 2), review(3), 2).await.unwrap());
    assert!(tasks.save_conversation_and_queue(row("one", 2, 2), review(4), 2).await.unwrap());
    // The limit of two reviews is reached.
    assert!(!tasks.save_conversation_and_queue(row("one", 3, 3), review(5), 2).await.unwrap());
    assert_eq!(tasks.conversation("one").await.unwrap(), Some(row("one", 2, 2)));
    let query = TaskQuery { max: 9, ..TaskQuery::default() };
    let queued: Vec<_> = tasks.tasks(&query).await.unwrap();
    assert_eq!(queued.len(), 2);
    assert!(queued.iter().all(|task| task.kind == TaskKind::Review && task.client.is_none()));
    let (first, second) = tokio::join!(
        tasks.save_conversation_and_queue(row("two", 1, 4), review(6), 9),
        tasks.save_conversation_and_queue(row("two", 1, 4), review(7), 9),
    );
    assert!(first.unwrap() != second.unwrap());
    assert_eq!(tasks.tasks(&query).await.unwrap().len(), 3);
}

async fn reviews_have_their_own_queue_and_run_last(tasks: &dyn TaskStore) {
    let review = new_task("review", 1);
    let (workspace, id) = (review.workspace.clone(), review.id.clone());
    assert!(tasks.save_conversation_and_queue(row("one", 1, 1), review, 9).await.unwrap());
    let limits = QueueLimits { unfinished_max: 1, minor_max: 1, ..queue_limits() };
    let dream = tasks.enqueue(new_task("dream", 2), limits).await.unwrap();
    assert!(
        matches!(dream, EnqueueResult::Queued(_)),
        "a review takes no place in the queue of others"
    );
    let began = tasks.begin_next(&workspace, time(3)).await.unwrap().unwrap();
    assert_eq!(began.kind, TaskKind::Dream);
    let end = TaskOutcome { status: Status::Completed, outcome: "{}", request: "{}", effect: None };
    assert!(tasks.finish_task(began.attempt(), end, time(4)).await.unwrap());
    let began = tasks.begin_next(&workspace, time(5)).await.unwrap().unwrap();
    assert_eq!(began.id, id);
}

async fn texts_kept_for_reviews_can_be_dropped(tasks: &dyn TaskStore) {
    assert_eq!(tasks.drop_watched().await.unwrap(), 0);
    let data = r#"{"turns":1,"watched":{"said":["x"]}}"#.to_owned();
    assert!(tasks.save_conversation(ConversationRow { data, ..row("one", 1, 1) }).await.unwrap());
    assert!(tasks.save_conversation(row("two", 1, 1)).await.unwrap());
    assert_eq!(tasks.drop_watched().await.unwrap(), 1);
    assert_eq!(tasks.conversation("one").await.unwrap().unwrap().data, r#"{"turns":1}"#);
    assert_eq!(tasks.conversation("two").await.unwrap(), Some(row("two", 1, 1)));
    assert_eq!(tasks.drop_watched().await.unwrap(), 0);
}

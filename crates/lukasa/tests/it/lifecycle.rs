//! Opening, sharing, closing and dropping a home; the clock.

use std::sync::Arc;
use std::time::Duration;

use lukasa::{ErrorKind, Lukasa, Timestamp};
use testkit::ManualClock;

use crate::{TestHome, paths, person};

#[tokio::test]
async fn two_handles_on_one_home_see_each_others_writes() {
    let home = TestHome::new();
    let (one, other) = (home.open().await, home.open().await);
    let (here, there) = (person(&one), person(&other));
    let made = here.create("global/a.md", "- one\n").await.unwrap();
    assert_eq!(there.create("global/a.md", "- x\n").await.unwrap_err().code(), "already_exists");
    there.edit("global/a.md", "one", "two").await.unwrap();
    assert_eq!(here.read("global/a.md").await.unwrap().text, "- two\n");
    let blocked = here.undo(made.change.unwrap()).await.unwrap_err();
    assert_eq!(blocked.kind(), ErrorKind::Conflict);
    let writes = async |memories: &lukasa::Memories, name: &str| {
        for number in 0..20 {
            memories.create(format!("global/{name}-{number}.md"), "- x\n").await.unwrap();
        }
    };
    tokio::join!(writes(&here, "here"), writes(&there, "there"));
    assert_eq!(paths(&here).await.len(), 41);
    assert_eq!(paths(&there).await, paths(&here).await);
    one.close().await;
    // The other handle still works.
    there.delete("global/a.md").await.unwrap();
    other.close().await;
}

/// In a `LocalSet`, `tokio::task::block_in_place` panics even if the runtime has several threads.
#[tokio::test(flavor = "multi_thread")]
async fn a_home_works_in_a_local_set_of_a_multi_thread_runtime() {
    let home = TestHome::new();
    let used = async {
        let lukasa = home.open().await;
        let memories = person(&lukasa);
        memories.create("global/a.md", "- one\n").await.unwrap();
        memories.edit("global/a.md", "one", "two").await.unwrap();
        memories.remember("I work at night").await.unwrap();
        assert_eq!(memories.read("global/a.md").await.unwrap().text, "- two\n");
        lukasa.close().await;
    };
    tokio::task::LocalSet::new().run_until(used).await;
}

#[tokio::test]
async fn closing_lets_running_tasks_end_and_refuses_later_calls() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    let task = memories.remember("I work at night").start().await.unwrap();
    let conversation = memories.conversation("talk-1").await.unwrap();
    // A running task may end before the close; a queued one would wait for the next opening.
    while matches!(task.status().await.unwrap(), lukasa::TaskStatus::Queued) {
        tokio::task::yield_now().await;
    }
    lukasa.close().await;

    for error in [
        memories.create("global/a.md", "- x\n").await.unwrap_err(),
        memories.list().await.unwrap_err(),
        memories.remember("I work at night").await.unwrap_err(),
        task.status().await.unwrap_err(),
        conversation.context().await.unwrap_err(),
        memories.events().await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.code()), (ErrorKind::Closed, "closed"));
    }
    assert_eq!(conversation.prompt("hello"), None);

    let lukasa = home.open().await;
    assert_eq!(paths(&person(&lukasa)).await.len(), 1);
    lukasa.close().await;
}

#[tokio::test]
async fn waiting_for_a_task_fails_on_close_and_the_task_continues_later() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    // Closed before the lane begins, because the task did not yield to it.
    let task = memories.remember("I work at night").start().await.unwrap();
    lukasa.close().await;
    match task.wait().await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        Ok(report) => assert_eq!(report.memories.len(), 1),
    }
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    let [task] = &memories.tasks().await.unwrap()[..] else { panic!("the task is lost") };
    assert_eq!(task.wait().await.unwrap().memories.len(), 1);
    lukasa.close().await;
}

#[test]
fn a_home_dropped_without_close_loses_nothing_acknowledged() {
    let home = TestHome::new();
    let id = lukasa::block_on(async {
        let lukasa = home.open().await;
        let memories = person(&lukasa);
        memories.create("global/a.md", "- one\n").await.unwrap();
        memories.remember("I work at night").start().await.unwrap().id().clone()
        // Dropped with its runtime, without closing.
    });
    lukasa::block_on(async {
        let lukasa = home.open().await;
        let memories = person(&lukasa);
        assert_eq!(memories.read("global/a.md").await.unwrap().text, "- one\n");
        assert_eq!(memories.history_of("global/a.md", 9).await.unwrap().len(), 1);
        memories.task(&id).await.unwrap().expect("the task is lost").wait().await.unwrap();
        assert_eq!(paths(&memories).await.len(), 2);
        lukasa.close().await;
    });
}

#[tokio::test]
async fn the_injected_clock_dates_changes_and_texts() {
    let home = TestHome::new();
    let now: Timestamp = "2031-05-06T07:08:09Z".parse().unwrap();
    let clock = Arc::new(ManualClock::at(now));
    let builder = Lukasa::builder(home.path()).clock(Arc::clone(&clock) as Arc<dyn lukasa::Clock>);
    let lukasa = builder.open().await.unwrap();
    let memories = person(&lukasa);
    memories.create("global/a.md", "- one\n").await.unwrap();
    clock.advance(Duration::from_mins(1));
    memories.remember("My appointment is tomorrow").await.unwrap();
    let dates: Vec<_> =
        memories.history(9).await.unwrap().iter().map(|change| change.at.to_string()).collect();
    assert_eq!(dates, ["2031-05-06T07:09:09Z", "2031-05-06T07:08:09Z"]);
    // A relative date in a text is resolved by the same clock.
    let mut texts = String::new();
    for memory in memories.list().await.unwrap() {
        texts += &memories.read(memory.path).await.unwrap().text;
    }
    assert!(texts.contains("2031-05-07"), "{texts}");
    lukasa.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_works_on_a_multi_thread_runtime() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let tasks = (0..4).map(|number| {
        let memories = person(&lukasa);
        tokio::spawn(async move {
            memories.create(format!("global/{number}.md"), "- x\n").await.unwrap();
            memories.remember(&format!("I own bicycle number {number}")).await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert!(paths(&person(&lukasa)).await.len() >= 5);
    lukasa.close().await;
}

#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Lukasa>();
    check::<lukasa::Workspace>();
    check::<lukasa::Memories>();
    check::<lukasa::Conversation>();
    check::<lukasa::Task>();
    check::<lukasa::TaskRequest>();
    check::<lukasa::MemoryEvents>();
    check::<lukasa::Error>();
}

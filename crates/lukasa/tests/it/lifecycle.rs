//! Opening, sharing, closing, dropping; the clock.

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
    // The other one goes on.
    there.delete("global/a.md").await.unwrap();
    other.close().await;
}

/// There, `tokio::task::block_in_place` panics although the runtime has several threads.
#[tokio::test(flavor = "multi_thread")]
async fn a_local_set_of_a_runtime_with_several_threads_may_use_it() {
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
async fn closing_lets_tasks_end_and_refuses_what_comes_later() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    let task = memories.remember("I work at night").start().await.unwrap();
    let conversation = memories.conversation("talk-1").await.unwrap();
    // Begun, so that it is let end and not left for the next start.
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
async fn whoever_waits_for_a_task_is_told_that_it_goes_on_with_the_next_start() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    // Closed before its lane begins: nothing has yielded to it yet.
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
fn a_home_that_is_dropped_loses_nothing_that_was_acknowledged() {
    let home = TestHome::new();
    let id = lukasa::block_on(async {
        let lukasa = home.open().await;
        let memories = person(&lukasa);
        memories.create("global/a.md", "- one\n").await.unwrap();
        memories.remember("I work at night").start().await.unwrap().id().clone()
        // Dropped with its runtime, without a close.
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
async fn the_injected_clock_dates_what_happens() {
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
    // A date that is meant relative to the day is written out by the same clock.
    let mut texts = String::new();
    for memory in memories.list().await.unwrap() {
        texts += &memories.read(memory.path).await.unwrap().text;
    }
    assert!(texts.contains("2031-05-07"), "{texts}");
    lukasa.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_of_several_threads_does_as_well() {
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
fn handles_go_to_other_threads() {
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

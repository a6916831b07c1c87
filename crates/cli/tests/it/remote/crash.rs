//! Tests that kill one side at random moments under load, again and again.
//!
//! After each kill, every acknowledged write must exist, every other write must be complete or absent, and the next
//! command must work.

use std::time::Duration;

use serde_json::json;
use testkit::{Random, delay_fault};

use super::setup::{RemoteSetup, kill};
use crate::crash::{ExpectedState, Write, seed, with_outcomes, write_and_kill};
use crate::served::McpServerProcess;

const KILLS: usize = 15;

/// Writes, kills with `end`, and compares the files with what was acknowledged, again and again.
fn check_kills(
    mut dice: Random,
    mut end: impl FnMut(Ending<'_>) -> (McpServerProcess, Vec<(Write, bool)>),
) {
    let setup = RemoteSetup::empty();
    let mut world = ExpectedState::new("project");
    let mut served = setup.serve();
    world.begin(&mut served);
    let mut hits = 0;
    for round in 0..KILLS {
        let writes = world.plan_writes(round, &mut dice);
        let mut outcomes;
        (served, outcomes) = end(Ending { setup: &setup, served, writes, dice: &mut dice });
        hits += usize::from(outcomes.iter().any(|(_, acknowledged)| !acknowledged));
        outcomes.push((world.write_after(&mut served, round), true));
        world.examine(&setup.root(), outcomes);
    }
    served.close_input();
    setup.wait_until_unused();
    let changes = setup.check_coherent(&setup.place);
    assert_eq!(changes.len(), world.changes);
    assert!(changes.iter().all(|change| change["kind"] != "outside"), "{changes:?}");
    // Otherwise the test would have tested nothing.
    assert!(hits > KILLS / 3, "only {hits} of {KILLS} kills came before the last answer");
}

/// The writes of a round, and the server that has to make them.
struct Ending<'r> {
    setup: &'r RemoteSetup,
    served: McpServerProcess,
    writes: Vec<Write>,
    dice: &'r mut Random,
}

#[test]
fn kills_of_the_process_here_lose_nothing_that_was_acknowledged() {
    let seed = seed();
    println!("the same writes again: LUKASA_TEST_SEED={seed}");
    check_kills(Random::new(seed), |Ending { setup, served, writes, dice }| {
        let outcomes = write_and_kill(served, writes, dice);
        (setup.serve(), outcomes)
    });
}

#[test]
fn kills_of_the_process_there_lose_nothing_that_was_acknowledged() {
    let seed = seed();
    println!("the same writes again: LUKASA_TEST_SEED={seed}");
    check_kills(Random::new(seed), |Ending { setup, mut served, writes, dice }| {
        let backend = setup.backend();
        let ids: Vec<u64> = writes.iter().map(|write| served.ask(&write.call)).collect();
        let read = dice.below(writes.len());
        let mut answers: Vec<_> = (0..read).map(|_| served.answer()).collect();
        delay_fault(Duration::from_micros(dice.below(5_000) as u64));
        kill(backend);
        answers.extend((read..ids.len()).map(|_| served.answer()));
        for answer in answers.iter().filter(|answer| answer.code != "ok") {
            assert_eq!(answer.code, "scope_unavailable", "{}", answer.text);
        }
        if answers.iter().all(|answer| answer.code == "ok") {
            // The kill came after the last answer. The next call may be the one that finds the connection closed.
            let found = served.call(&json!({ "command": "view", "path": "/memories/project" }));
            assert!(["ok", "scope_unavailable"].contains(&found.code.as_str()), "{}", found.text);
        }
        // The same server goes on, over a new connection.
        let outcomes = with_outcomes(writes, &ids, &answers);
        (served, outcomes)
    });
}

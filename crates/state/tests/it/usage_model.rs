//! Pins and usage follow any sequence of changes as a plain map would.

use std::collections::BTreeMap;

use lukasa_state::{HistoryStore, UsageRow, UseEvent};
use memory::change::ChangeKind;
use proptest::prelude::*;
use testkit::conformance::state::{ChangeBuilder, files, path, remove, rename, time};

use crate::support::StateFolder;

/// Paths that are close to each other in byte order, in wildcards and in case.
const PATHS: [&str; 12] = [
    "a", "a/b", "a/b/c.md", "a/_.md", "a-.md", "a.md", "a0", "a0/b", "A/b", "a_/b", "a%/b",
    "\u{e9}/b",
];
const FOLDERS: [&str; 7] = ["a", "a/b", "a0", "A", "a_", "a%", "\u{e9}"];

#[derive(Clone, Debug)]
enum UsageStep {
    Use(&'static str),
    Pin(&'static str, bool),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    RemoveFolder(&'static str),
    RenameFolder(&'static str, &'static str),
}

fn steps() -> impl Strategy<Value = Vec<(UsageStep, bool)>> {
    let at = || prop::sample::select(&PATHS[..]);
    let folder = || prop::sample::select(&FOLDERS[..]);
    let step = prop_oneof![
        3 => at().prop_map(UsageStep::Use),
        1 => (at(), any::<bool>()).prop_map(|(at, pinned)| UsageStep::Pin(at, pinned)),
        1 => at().prop_map(UsageStep::Remove),
        1 => (at(), at()).prop_map(|(from, to)| UsageStep::Rename(from, to)),
        1 => folder().prop_map(UsageStep::RemoveFolder),
        2 => (folder(), folder())
            .prop_filter("a folder does not go into itself", |(from, to)| {
                !path(from).is_within(&path(to)) && !path(to).is_within(&path(from))
            })
            .prop_map(|(from, to)| UsageStep::RenameFolder(from, to)),
    ];
    prop::collection::vec((step, any::<bool>()), 1..14)
}

/// Pins and uses by path.
type UsageModel = BTreeMap<String, (bool, u64)>;

/// Applies a step to the model.
fn apply(model: &mut UsageModel, step: &UsageStep) {
    let rebased = |at: &str, from: &str, to: &str| {
        at.strip_prefix(from).filter(|rest| rest.starts_with('/')).map(|rest| format!("{to}{rest}"))
    };
    match *step {
        UsageStep::Use(at) => model.entry(at.to_owned()).or_default().1 += 1,
        UsageStep::Pin(at, true) => {
            let (pinned, uses) = model.entry(at.to_owned()).or_default();
            *uses += u64::from(!*pinned);
            *pinned = true;
        }
        UsageStep::Pin(at, false) => {
            if let Some((pinned, _)) = model.get_mut(at) {
                *pinned = false;
            }
        }
        UsageStep::Remove(at) => drop(model.remove(at)),
        UsageStep::Rename(from, to) if from == to => {}
        UsageStep::Rename(from, to) => {
            model.remove(to);
            if let Some(mark) = model.remove(from) {
                model.insert(to.to_owned(), mark);
            }
        }
        UsageStep::RemoveFolder(folder) => model.retain(|at, _| rebased(at, folder, "").is_none()),
        UsageStep::RenameFolder(from, to) => {
            model.retain(|at, _| at != to && rebased(at, to, "").is_none());
            let all = std::mem::take(model).into_iter();
            *model = all.map(|(at, mark)| (rebased(&at, from, to).unwrap_or(at), mark)).collect();
        }
    }
}

/// Returns the step as a change, if it is one.
fn change(step: &UsageStep, identity: &str) -> Option<ChangeBuilder> {
    let mut builder = match *step {
        UsageStep::Use(_) | UsageStep::Pin(..) => return None,
        UsageStep::Remove(at) => remove("one", at, "text"),
        UsageStep::Rename(from, to) => rename("one", (from, to), "text"),
        UsageStep::RemoveFolder(at) => {
            files(ChangeKind::Delete, Vec::new()).folder("one", at, None)
        }
        UsageStep::RenameFolder(from, to) => {
            files(ChangeKind::Rename, Vec::new()).folder("one", from, Some(to))
        }
    };
    for file in &mut builder.0.files {
        identity.clone_into(&mut file.change.root.identity);
    }
    if let Some(folder) = &mut builder.0.folder {
        identity.clone_into(&mut folder.root.identity);
    }
    Some(builder)
}

async fn run(state: &dyn HistoryStore, identity: &str, step: &UsageStep, withdrawn_first: bool) {
    match *step {
        UsageStep::Use(at) => {
            let event = UseEvent {
                identity: identity.to_owned(),
                path: path(at),
                at: time(1),
                is_write: false,
            };
            state.add_uses(&[event]).await.unwrap();
        }
        UsageStep::Pin(at, pinned) => {
            state.set_pin((identity, &path(at)), pinned, time(1)).await.unwrap();
        }
        UsageStep::Remove(_)
        | UsageStep::Rename(..)
        | UsageStep::RemoveFolder(_)
        | UsageStep::RenameFolder(..) => {
            let builder = change(step, identity).unwrap();
            if withdrawn_first {
                let before = state.usage_rows(identity).await.unwrap();
                let id = state.record(builder.build()).await.unwrap();
                state.abort_change(id).await.unwrap();
                assert_eq!(state.usage_rows(identity).await.unwrap(), before, "{step:?} withdrawn");
            }
            state.record(builder.build()).await.unwrap();
        }
    }
}

#[test]
fn pins_and_usage_follow_any_sequence_of_changes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let place = StateFolder::new();
    let state = place.state();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let case = std::cell::Cell::new(0);
    runner
        .run(&steps(), |steps| {
            // Each case uses its own identity, so that one database serves all.
            case.set(case.get() + 1);
            let identity = format!("case:{}", case.get());
            runtime.block_on(async {
                let mut model = UsageModel::new();
                for (step, withdrawn_first) in &steps {
                    run(&state, &identity, step, *withdrawn_first).await;
                    apply(&mut model, step);
                }
                let marks = state.usage_rows(&identity).await.unwrap().into_iter();
                let found = marks.map(|UsageRow { path, pinned, usage }| {
                    (path.to_string(), (pinned, usage.uses))
                });
                prop_assert_eq!(found.collect::<UsageModel>(), model);
                Ok(())
            })
        })
        .unwrap();
}

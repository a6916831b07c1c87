//! Rules on labeled cases: rates of expected outcomes.
//!
//! A case is *met* if the outcome is the expected one. It is *asked* if nothing was decided and the right proposal
//! or candidate is there, and *wrong* otherwise. Losing an entry that the case does not name fails the test at any
//! rate.

use lukasa_agents::rules::{Snapshot, dream, forget, remember};
use lukasa_agents::{ContextMode, CuratorEdit, ForgetRequest, RememberError, RememberRequest};
use memory::document;
use memory::proposal::Proposal;
use memory::screen::Screen;
use serde_json::Value;

use crate::case::{
    MemoryTexts, cases, contains, entries, list, scope, snapshot, text, texts_after,
};

/// Outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Met,
    Asked,
    Wrong,
}

struct Tally {
    name: &'static str,
    met: usize,
    asked: usize,
    wrong: Vec<String>,
}

impl Tally {
    const fn new(name: &'static str) -> Self {
        Self { name, met: 0, asked: 0, wrong: Vec::new() }
    }

    fn add(&mut self, outcome: Outcome, what: impl Into<String>) {
        match outcome {
            Outcome::Met => self.met += 1,
            Outcome::Asked => self.asked += 1,
            Outcome::Wrong => self.wrong.push(what.into()),
        }
    }

    /// Fails if fewer than this percentage of the cases is met or asked.
    #[expect(clippy::print_stdout, reason = "the rates are read in the output of the test")]
    fn check(&self, percent_min: usize) {
        let all = self.met + self.asked + self.wrong.len();
        let Self { name, met, asked, wrong } = self;
        println!(
            "{name}: {met} met, {asked} asked, {} wrong of {all}\n  {}",
            wrong.len(),
            wrong.join("\n  ")
        );
        assert!(
            (met + asked) * 100 >= all * percent_min,
            "{name}: {met} + {asked} of {all}: {wrong:#?}"
        );
    }
}

fn request(case: &Value) -> RememberRequest {
    let context_mode = match text(case, "contextMode") {
        "clean" => ContextMode::Clean,
        _ => ContextMode::Workspace,
    };
    RememberRequest { content: text(case, "content").to_owned(), context_mode, scope: scope(case) }
}

/// Returns the memories after a person accepted all proposals.
fn with_proposals_accepted(files: &MemoryTexts, proposals: &[Proposal]) -> MemoryTexts {
    let mut files = files.clone();
    for change in proposals.iter().flat_map(|proposal| &proposal.changes) {
        let path = change.path.to_string();
        let Ok(text) = change.apply(files.get(&path).map_or("", String::as_str)) else { continue };
        files.insert(path, text);
    }
    files
}

fn outcome_of_remember(
    expect: &Value,
    before: &MemoryTexts,
    now: &MemoryTexts,
    proposals: &[Proposal],
) -> Outcome {
    let (old, new) = (entries(before), entries(now));
    let removed: Vec<_> = old.iter().filter(|entry| !new.contains(entry)).collect();
    let action = text(expect, "action");
    assert!(removed.is_empty() || action == "update" && removed.len() == 1, "{removed:?} are lost");
    let written: Vec<(&String, &String)> =
        now.iter().filter(|(path, text)| before.get(*path) != Some(text)).collect();
    let bodies: Vec<&str> = written.iter().map(|(_, text)| document::body(text)).collect();
    let has_text =
        list(expect, "mustContain").iter().all(|wanted| contains(&bodies.join("\n"), wanted));
    let decided = with_proposals_accepted(now, proposals);
    let is_without = |files: &MemoryTexts| {
        let all = || files.iter().filter(|(path, text)| before.get(*path) != Some(text));
        !list(expect, "mustNotContain").iter().any(|one| all().any(|(_, text)| contains(text, one)))
    };
    let least = usize::try_from(expect["minEntries"].as_u64().unwrap_or(1)).unwrap();
    // Number of entries after a person accepted.
    let accepted_count = entries(&decided).len();
    match action {
        "add" if new.len() >= old.len() + least && has_text && is_without(now) => Outcome::Met,
        "update" if removed.len() == 1 && new.len() == old.len() && has_text && is_without(now) => {
            Outcome::Met
        }
        "noop" if new.len() == old.len() => Outcome::Met,
        "update" | "noop"
            if accepted_count <= old.len()
                && is_without(&decided)
                && (has_text || action == "noop") =>
        {
            Outcome::Asked
        }
        _ => Outcome::Wrong,
    }
}

#[test]
fn facts_are_written_where_a_careful_person_would_put_them() {
    let [mut actions, mut scopes, mut types] = [
        Tally::new("remember: action"),
        Tally::new("remember: scope"),
        Tally::new("remember: type"),
    ];
    for case in cases(include_str!("cases/remember.jsonl")) {
        let (id, expect) = (text(&case, "id"), &case["expect"]);
        let snapshot = snapshot(&case, "existing");
        let done = remember(&snapshot, &request(&case), &Screen::default());
        let label = format!("{id} {}", text(&case, "content"));
        let done = match (done, text(expect, "action")) {
            (Err(RememberError::Screened { family, .. }), "refuse") => {
                let is_right = family.as_ref() == text(expect, "rule");
                actions.add(if is_right { Outcome::Met } else { Outcome::Wrong }, label);
                continue;
            }
            (Ok(done), "add" | "update" | "noop") => done,
            (other, _) => {
                actions.add(Outcome::Wrong, format!("{label}: {other:?}"));
                continue;
            }
        };
        let (before, now) = (texts_after(&snapshot, &[]), texts_after(&snapshot, &done.edits));
        let action = text(expect, "action");
        actions.add(
            outcome_of_remember(expect, &before, &now, &done.proposals),
            format!("{label}: {now:#?}"),
        );
        let written: Vec<(&String, &String)> =
            now.iter().filter(|(path, text)| before.get(*path) != Some(text)).collect();
        if matches!(action, "add" | "update") && text(expect, "scope") != "either" {
            let folder = format!("/memories/{}/", text(expect, "scope"));
            let is_there = written.iter().all(|(at, _)| at.starts_with(&folder));
            scopes.add(if is_there { Outcome::Met } else { Outcome::Wrong }, label.clone());
        }
        if action == "add" {
            let kinds: Vec<&str> =
                text(expect, "type").trim_start_matches("any-of:").split('|').collect();
            let is_of = written.iter().all(|(_, memory)| {
                kinds
                    .contains(&&*document::parse_header(memory.as_bytes()).kind.unwrap_or_default())
            });
            types.add(if is_of { Outcome::Met } else { Outcome::Wrong }, label);
        }
    }
    actions.check(90);
    scopes.check(93);
    types.check(85);
}

#[test]
fn the_meant_entries_are_removed_or_proposed_as_candidates() {
    let mut tally = Tally::new("forget");
    for case in cases(include_str!("cases/forget.jsonl")) {
        let snapshot = snapshot(&case, "memories");
        let query = text(&case, "query").to_owned();
        let done = forget(&snapshot, &ForgetRequest { query, scope: scope(&case), file: None });
        let mut removed: Vec<(String, String)> = done
            .removed
            .iter()
            .map(|entry| (entry.path.to_string(), entry.summary.trim().to_owned()))
            .collect();
        let mut expected: Vec<(String, String)> = list(&case["expect"], "removed")
            .iter()
            .map(|entry| (text(entry, "path").to_owned(), text(entry, "entry").to_owned()))
            .collect();
        let candidates: Vec<(String, String)> = done
            .candidates
            .iter()
            .take(3)
            .map(|one| (one.path.to_string(), one.summary.trim().to_owned()))
            .collect();
        removed.sort();
        expected.sort();
        let label = format!("{} {}", case["id"], case["query"]);
        assert!(removed.iter().all(|one| expected.contains(one)), "{label}: {removed:?} are lost");
        let outcome = if removed == expected {
            Outcome::Met
        } else if removed.is_empty() && expected.iter().any(|one| candidates.contains(one)) {
            Outcome::Asked
        } else {
            Outcome::Wrong
        };
        tally.add(
            outcome,
            format!("{label}: {removed:?}, asked {candidates:?}, expected {expected:?}"),
        );
    }
    tally.check(95);
}

fn outcome_of_dream(
    case: &Value,
    snapshot: &Snapshot,
    edits: &[CuratorEdit],
    proposals: &[Proposal],
) -> Outcome {
    let expect = &case["expect"];
    let files = texts_after(snapshot, edits);
    let survives = |files: &MemoryTexts| {
        list(expect, "distinctFacts")
            .iter()
            .all(|fact| files.values().any(|text| contains(text, fact)))
    };
    assert!(survives(&files), "{}: a fact is lost", case["id"]);
    let is_tidy = |files: &MemoryTexts| {
        let is_gone = |fact: &Value| !files.values().any(|text| contains(text, fact));
        entries(files).len() <= usize::try_from(expect["maxEntries"].as_u64().unwrap()).unwrap()
            && list(expect, "mustBeGone").iter().all(is_gone)
    };
    let decided = with_proposals_accepted(&files, proposals);
    if is_tidy(&files) {
        Outcome::Met
    } else if is_tidy(&decided) && survives(&decided) {
        Outcome::Asked
    } else {
        Outcome::Wrong
    }
}

#[test]
fn repetitions_are_merged_or_proposed() {
    let mut tally = Tally::new("dream");
    for case in cases(include_str!("cases/dream.jsonl")) {
        let snapshot = snapshot(&case, "memories");
        let done = dream(&snapshot);
        let outcome = outcome_of_dream(&case, &snapshot, &done.edits, &done.proposals);
        tally.add(outcome, format!("{}: {:#?}", text(&case, "id"), done.proposals));
    }
    tally.check(90);
}

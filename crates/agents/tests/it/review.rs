//! Review: rates of correct findings in labeled conversations, and properties for any conversation.
//!
//! The cases state findings that are required, allowed and forbidden.

use jiff::tz::TimeZone;
use lukasa_agents::rules::{remember, review};
use lukasa_agents::{
    ContextMode, FINDINGS_MAX, MessageRole, RememberRequest, ReviewFinding, ReviewMessage,
};
use memory::screen::Screen;
use proptest::prelude::*;
use serde_json::Value;

use crate::case::{cases, contains, list, snapshot, text};

/// Detection rates over a set of cases.
struct DetectionRates {
    /// Findings that the cases require, and those that were found.
    required: usize,
    hit: usize,
    /// All findings, and those that a person would keep.
    found: usize,
    right: usize,
    misses: Vec<String>,
}

fn percent(part: usize, of: usize) -> usize {
    (part * 100).checked_div(of).unwrap_or(100)
}

fn new_findings(case: &Value) -> Vec<ReviewFinding> {
    let message = |one: &Value| ReviewMessage {
        id: text(one, "id").to_owned(),
        role: text(one, "role").parse().unwrap(),
        text: text(one, "text").to_owned(),
    };
    let messages: Vec<ReviewMessage> = list(case, "transcript").iter().map(message).collect();
    let snapshot = snapshot(case, "existing");
    let is_new = |finding: &ReviewFinding| {
        let content = finding.text.clone();
        let request =
            RememberRequest { content, context_mode: ContextMode::Workspace, scope: None };
        remember(&snapshot, &request, &Screen::default()).is_ok_and(|done| !done.edits.is_empty())
    };
    let findings = review(&messages, snapshot.now, &TimeZone::UTC);
    for banned in list(&case["expect"], "mustNotContain") {
        let is_clean = |one: &ReviewFinding| !contains(&one.text, banned);
        assert!(findings.iter().all(is_clean), "{}: {findings:?}", case["id"]);
    }
    findings.into_iter().filter(is_new).collect()
}

fn rates(lines: &str, ids: &str) -> DetectionRates {
    let mut rates = DetectionRates { required: 0, hit: 0, found: 0, right: 0, misses: Vec::new() };
    for case in cases(lines).iter().filter(|case| text(case, "id").starts_with(ids)) {
        let expect = &case["expect"];
        let mut findings = new_findings(case);
        let all = |one: &Value, finding: &ReviewFinding| {
            list(one, "mustContain").iter().all(|text| contains(&finding.text, text))
        };
        let (must, label) = (text(case, "embedded") == "must", text(case, "id"));
        for item in list(expect, "save") {
            let hit = findings.iter().position(|finding| {
                all(item, finding) && finding.target.as_ref() == text(item, "target")
            });
            rates.required += usize::from(must);
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
    let DetectionRates { required, hit, found, right, misses } = rates(lines, ids);
    println!("{name}: {hit} of {required} found, {right} of {found} right");
    println!("  {}", misses.join("\n  "));
    assert!(percent(hit, required) >= 85, "{name}: {hit} of {required}: {misses:#?}");
    assert!(percent(right, found) >= 95, "{name}: {right} of {found}: {misses:#?}");
}

#[test]
fn findings_are_those_that_a_person_would_keep() {
    let more = include_str!("cases/review_more.jsonl");
    check("review", include_str!("cases/review.jsonl"), "rev-");
    check("review, developed with", more, "dev-");
    check("review, held out", more, "held-");
    check("review, second round", more, "fresh-");
    check("review, written last", more, "last-");
}

/// Fragments for sentences that come near to a finding.
const PIECES: &[&str] = &[
    "Always",
    "never",
    "From now on",
    "remember that",
    "remember that.",
    "I'm a pilot",
    "I prefer",
    "we use",
    "here",
    "No,",
    "stop adding",
    "don't",
    "without asking",
    "commits",
    "the gate",
    "it",
    "that way",
    "forget that",
    "lol",
    "just for now",
    "?",
    ".",
    ",",
    ":",
    "!",
    "\n",
    "\n\n",
    "> ",
    "```",
    "\"",
    "“",
    "「",
    "'",
    "- ",
    "1. ",
    "immer",
    "Antworte",
    "nie wieder",
    "jamais",
    "n'efface",
    "siempre",
    "non",
    "mai",
    "altijd",
    "всегда",
    "не пиши",
    "请记住：",
    "以后",
    "一律",
    "。",
    "必ず",
    "ください",
    "これから",
    "zawsze",
    "🙄",
    "tomorrow",
    "`x",
    "5544",
    "\u{301}",
    "ﬁ",
    "İ",
    "\r",
    "\t",
    "                ",
];

fn message_text() -> impl Strategy<Value = String> {
    let made = prop::collection::vec(prop::sample::select(PIECES), 0..24)
        .prop_map(|pieces| pieces.join(" "));
    let glued = prop::collection::vec(prop::sample::select(PIECES), 0..16)
        .prop_map(|pieces| pieces.concat());
    prop_oneof![3 => made, 1 => glued, 1 => any::<String>()]
}

fn conversation() -> impl Strategy<Value = Vec<ReviewMessage>> {
    let role = prop::sample::select(vec![
        MessageRole::User,
        MessageRole::User,
        MessageRole::Assistant,
        MessageRole::Tool,
    ]);
    prop::collection::vec((role, message_text()), 0..8).prop_map(|parts| {
        let message = |(index, (role, text))| ReviewMessage { id: format!("m{index}"), role, text };
        parts.into_iter().enumerate().map(message).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn findings_are_few_deterministic_and_backed_by_the_person(messages in conversation()) {
        let now = "2026-06-01T09:00:00Z".parse().unwrap();
        let findings = review(&messages, now, &TimeZone::UTC);
        prop_assert!(findings.len() <= FINDINGS_MAX);
        prop_assert_eq!(&findings, &review(&messages, now, &TimeZone::UTC));
        for finding in &findings {
            prop_assert!(!finding.text.trim().is_empty() && !finding.evidence.is_empty());
            let is_of_person = |id: &String| {
                messages.iter().any(|message| message.id == *id && message.role == MessageRole::User)
            };
            prop_assert!(finding.evidence.iter().all(is_of_person), "{finding:?}");
        }
        let others: Vec<ReviewMessage> =
            messages.into_iter().filter(|message| message.role != MessageRole::User).collect();
        prop_assert_eq!(review(&others, now, &TimeZone::UTC), []);
    }
}

//! Findings with their exact text, and near misses that are no findings.
//!
//! Each case is one message or a few, in several languages. Rates over labeled conversations are in `tests/it/review.rs`.

use super::*;

fn review_statements(texts: &[&str]) -> Vec<(FindingTarget, String)> {
    let message = |(index, text): (usize, &&str)| ReviewMessage {
        id: format!("m{index}"),
        role: MessageRole::User,
        text: (*text).to_owned(),
    };
    let messages: Vec<ReviewMessage> = texts.iter().enumerate().map(message).collect();
    let now = "2031-04-05T09:00:00Z".parse().unwrap();
    let findings = review(&messages, now, &TimeZone::UTC);
    findings.into_iter().map(|finding| (finding.target, finding.text)).collect()
}

#[test]
fn a_finding_has_only_the_statement_itself() {
    use FindingTarget::{Memory, User};
    for (message, target, expected) in [
        ("Ok great, never rename my files.", User, "never rename my files."),
        ("Please remember that the tide gate opens at 6.", Memory, "the tide gate opens at 6."),
        ("The tide gate opens at 6, remember that.", Memory, "The tide gate opens at 6"),
        (
            "I told you before: stop adding banners to my pages.",
            User,
            "stop adding banners to my pages.",
        ),
        ("Could you please always answer in Welsh?", User, "always answer in Welsh?"),
        ("Note that the harbour closes tomorrow.", Memory, "the harbour closes on 2031-04-06."),
        ("Answer in Danish. Always.", User, "Answer in Danish. Always."),
        ("Merk dir: die Schleuse öffnet um 6.", Memory, "die Schleuse öffnet um 6."),
        (
            "Non, n'efface jamais de branches sans mon accord.",
            User,
            "n'efface jamais de branches sans mon accord.",
        ),
        ("请记住：水闸六点开门。", Memory, "水闸六点开门。"),
        (
            "水門は六時に開くことを覚えておいてください。",
            Memory,
            "水門は六時に開くことを覚えておいてください。",
        ),
    ] {
        assert_eq!(review_statements(&[message]), [(target, expected.to_owned())], "{message}");
    }
}

#[test]
fn near_misses_are_not_found() {
    for message in [
        "Why do you always ask?",
        "I always forget this flag.",
        "It never works.",
        "Just this once, never mind the style.",
        "If we ever moved, we'd always use the ferry.",
        "She says we should never sail at night.",
        "He wrote: \"from now on, never sail at night\".",
        "> From now on, never sail at night.",
        "Translate: From now on, never sail at night. Always wait.",
        "Oh sure, always sail at night, lol",
        "write a function that always returns a list",
        "use it and never print it",
        "Always use tabs. No wait, forget that.",
        "Always use tabs. Just for this file though.",
        "As you know I prefer letters.",
        "Das geht immer schief.",
        "Toujours la même erreur.",
        "No compila nunca.",
        "Il ne marche jamais.",
        "总是失败。",
        "いつも失敗する。",
        "Всегда одно и то же.",
    ] {
        assert_eq!(review_statements(&[message]), [], "{message}");
    }
}

#[test]
fn a_later_statement_replaces_an_earlier_one() {
    let finding = |text: &str| [(FindingTarget::User, text.to_owned())];
    let messages = ["Never answer in Welsh.", "ok", "Always answer in Welsh."];
    assert_eq!(review_statements(&messages), finding("Always answer in Welsh."));
    let messages = ["Always answer in Welsh.", "I told you: always answer in Welsh!"];
    assert_eq!(review_statements(&messages), finding("always answer in Welsh!"));
    assert_eq!(review_statements(&["Always answer in Welsh.", "scratch that"]), []);
    let messages = ["Always answer in Welsh.", "never mind the noise"];
    assert_eq!(review_statements(&messages), finding("Always answer in Welsh."));
}

#[test]
fn the_number_of_findings_is_limited_and_the_strongest_come_first() {
    let message = "We use Gradle here. I'm a pilot. Never use emojis. Always cite the law. \
        Remember that the gate opens at 6. Stop adding banners to pages. I prefer short answers.";
    let found = review_statements(&[message]);
    assert_eq!(found.len(), FINDINGS_MAX);
    assert_eq!(found[0].1, "the gate opens at 6.");
    assert_eq!(found[1].1, "Never use emojis.");
}

#[test]
fn a_few_characters_of_a_script_without_spaces_are_read_among_other_words() {
    // A digit of Myanmar begins a number with a digit of another script, so the number is split into pairs.
    for text in [
        "\u{116D0}:0 ",
        "always \u{116D0}:0, never",
        "\u{1041}:2-3 remember that",
        "ตลาด: never push on Fridays",
    ] {
        review_statements(&[text]);
    }
}

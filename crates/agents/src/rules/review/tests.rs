//! Statements that are found, and how they are cut; and near misses that are not.

use super::*;

fn review_statements(said: &[&str]) -> Vec<(FindingTarget, String)> {
    let message = |(index, text): (usize, &&str)| ReviewMessage {
        id: format!("m{index}"),
        role: MessageRole::User,
        text: (*text).to_owned(),
    };
    let messages: Vec<ReviewMessage> = said.iter().enumerate().map(message).collect();
    let now = "2031-04-05T09:00:00Z".parse().unwrap();
    let findings = review(&messages, now, &TimeZone::UTC);
    findings.into_iter().map(|one| (one.target, one.text)).collect()
}

#[test]
fn a_statement_is_kept_without_what_stands_around_it() {
    use FindingTarget::{Memory, User};
    for (said, target, kept) in [
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
        assert_eq!(review_statements(&[said]), [(target, kept.to_owned())], "{said}");
    }
}

#[test]
fn near_misses_are_not_found() {
    for said in [
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
        assert_eq!(review_statements(&[said]), [], "{said}");
    }
}

#[test]
fn what_is_said_later_wins() {
    let one = |text: &str| [(FindingTarget::User, text.to_owned())];
    let said = ["Never answer in Welsh.", "ok", "Always answer in Welsh."];
    assert_eq!(review_statements(&said), one("Always answer in Welsh."));
    let said = ["Always answer in Welsh.", "I told you: always answer in Welsh!"];
    assert_eq!(review_statements(&said), one("always answer in Welsh!"));
    assert_eq!(review_statements(&["Always answer in Welsh.", "scratch that"]), []);
    let said = ["Always answer in Welsh.", "never mind the noise"];
    assert_eq!(review_statements(&said), one("Always answer in Welsh."));
}

#[test]
fn at_most_so_many_are_found_the_plainest_first() {
    let said = "We use Gradle here. I'm a pilot. Never use emojis. Always cite the law. \
        Remember that the gate opens at 6. Stop adding banners to pages. I prefer short answers.";
    let found = review_statements(&[said]);
    assert_eq!(found.len(), FINDINGS_MAX);
    assert_eq!(found[0].1, "the gate opens at 6.");
    assert_eq!(found[1].1, "Never use emojis.");
}

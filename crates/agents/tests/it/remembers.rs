//! Remember, case by case.

use agents::embedded::{Stored, Written, remember};
use agents::{ContextMode, Edit, Refusal, RememberRequest};
use memory::change::Trust;
use memory::document;
use memory::path::{Layout, MemoryPath, Mount, Scope};
use memory::screen::{Family, Screen};
use serde_json::Value;

use crate::case::{after, cases, contains, entries, list, of, scope, snapshot, text};

fn request(case: &Value) -> RememberRequest {
    let context_mode = match text(case, "contextMode") {
        "clean" => ContextMode::Clean,
        _ => ContextMode::Workspace,
    };
    RememberRequest { content: text(case, "content").to_owned(), context_mode, scope: scope(case) }
}

fn ask(content: &str, scope: Option<Scope>) -> RememberRequest {
    let context_mode = ContextMode::Workspace;
    RememberRequest { content: content.to_owned(), context_mode, scope }
}

/// Returns what is wrong with the outcome of a case.
fn faults(case: &Value) -> Vec<String> {
    let expect = &case["expect"];
    let action = text(expect, "action");
    let snapshot = snapshot(case, "existing");
    let done = match (remember(&snapshot, &request(case), &Screen::default()), action) {
        (Err(Refusal::Screened { family, .. }), "refuse") => {
            let right = family.as_str() == text(expect, "rule");
            return if right { Vec::new() } else { vec![format!("refused for {family}")] };
        }
        (Ok(done), "add" | "update" | "noop") => done,
        (other, _) => return vec![format!("{other:?}")],
    };
    let (before, after) = (after(&snapshot, &[]), after(&snapshot, &done.edits));
    let (old, new) = (entries(&before), entries(&after));
    let written: Vec<(&String, &String)> =
        after.iter().filter(|(path, text)| before.get(*path) != Some(text)).collect();
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            faults.push(what.to_owned());
        }
    };
    let gone = old.iter().filter(|entry| !new.contains(entry)).count();
    let path = text(expect, "path");
    match action {
        "add" => {
            let least = expect["minEntries"].as_u64().unwrap_or(1);
            let added = u64::try_from(new.len() - old.len()).unwrap();
            must(
                gone == 0 && added >= least,
                "an entry of its own for each fact, the others as they were",
            );
        }
        "update" => must(
            gone == 1 && new.len() == old.len() && before[path] != after[path],
            "one entry replaced",
        ),
        _ => {
            must(
                new.len() == old.len() && written.iter().all(|(at, _)| *at == path),
                "nothing new",
            );
        }
    }
    let bodies: Vec<&str> = match action {
        "noop" => vec![after[path].as_str()],
        _ => written.iter().map(|(_, text)| document::body(text)).collect(),
    };
    for wanted in list(expect, "mustContain") {
        must(contains(&bodies.join("\n"), wanted), &format!("holds {wanted}"));
    }
    for unwanted in list(expect, "mustNotContain") {
        must(
            !written.iter().any(|(_, text)| contains(text, unwanted)),
            &format!("without {unwanted}"),
        );
    }
    if action == "add" {
        for (at, memory) in &written {
            let folder = format!("/memories/{}/", text(expect, "scope"));
            must(text(expect, "scope") == "either" || at.starts_with(&folder), "in its scope");
            let kind = document::head(memory.as_bytes()).kind.unwrap_or_default();
            let mut kinds = text(expect, "type").trim_start_matches("any-of:").split('|');
            must(kinds.any(|one| one == kind), "of its type");
        }
    }
    faults
}

#[test]
fn what_is_said_ends_up_where_a_careful_person_would_put_it() {
    for case in cases(include_str!("cases/remember.jsonl")) {
        assert_eq!(faults(&case), Vec::<String>::new(), "{} {}", case["id"], case["content"]);
    }
}

#[test]
fn a_given_scope_is_kept_to() {
    let nothing = of(Vec::new(), "2026-06-01T00:00:00Z".parse().unwrap());
    let done =
        remember(&nothing, &ask("I keep bees.", Some(Scope::Project)), &Screen::default()).unwrap();
    assert_eq!(done.scopes.into_iter().collect::<Vec<_>>(), [Mount::Scope(Scope::Project)]);
}

#[test]
fn a_scope_that_cannot_be_written_is_a_mismatch() {
    let mut nothing = of(Vec::new(), "2026-06-01T00:00:00Z".parse().unwrap());
    nothing.writable = vec![Mount::Scope(Scope::Global)];
    let asked = ask("We ship on Mondays.", Some(Scope::Project));
    assert_eq!(remember(&nothing, &asked, &Screen::default()), Err(Refusal::ScopeMismatch));
    let done = remember(&nothing, &ask("We ship on Mondays.", None), &Screen::default()).unwrap();
    assert_eq!(done.scopes.into_iter().collect::<Vec<_>>(), [Mount::Scope(Scope::Global)]);
}

#[test]
fn the_summary_never_quotes_the_content() {
    let nothing = of(Vec::new(), "2026-06-01T00:00:00Z".parse().unwrap());
    let done =
        remember(&nothing, &ask("I collect porcelain owls.", None), &Screen::default()).unwrap();
    assert_eq!(done.summary, "Saved to the global memories: 1 new, 0 updated, 0 known already.");
}

#[test]
fn invisible_characters_are_screened() {
    let nothing = of(Vec::new(), "2026-06-01T00:00:00Z".parse().unwrap());
    let asked = ask("The gate opens at six.\u{E0041}\u{E0042}", None);
    let refused = remember(&nothing, &asked, &Screen::default());
    assert!(
        matches!(refused, Err(Refusal::Screened { family: Family::Injection, .. })),
        "{refused:?}"
    );
}

#[test]
fn a_description_follows_what_an_entry_says_now() {
    let path = MemoryPath::parse("/memories/project/project/ci.md", Layout::Scoped).unwrap();
    let text = "---\nname: ci\ndescription: CI runs on Jenkins\n---\n\n- CI runs on Jenkins\n";
    let (written, trust) = (Written::Unknown, Trust::Agent);
    let stored = Stored { path, text: text.into(), pinned: false, written, trust };
    let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
    let content = ask("CI no longer runs on Jenkins, it runs on Buildkite now", None);
    let done = remember(&snapshot, &content, &Screen::default()).unwrap();
    let [Edit::Write { text, .. }] = done.edits.as_slice() else { panic!("{done:?}") };
    assert!(!text.contains("description: CI runs on Jenkins"), "{text}");
    assert!(text.contains("Buildkite"), "{text}");
}

#[test]
fn what_a_small_word_tells_apart_is_not_known_already() {
    let path = MemoryPath::parse("/memories/global/user/a.md", Layout::Scoped).unwrap();
    for (old, new) in [
        ("The lamp is on", "The lamp is off"),
        ("Deploy before the backup", "Deploy after the backup"),
        ("They pay us monthly", "We pay them monthly"),
        ("Some hosts allow root", "Every host allows root"),
        ("Option -c is safe", "Option -C is safe"),
    ] {
        let (path, text) = (path.clone(), format!("- {old}\n").into());
        let (written, trust) = (Written::Unknown, Trust::Agent);
        let stored = Stored { path, text, pinned: false, written, trust };
        let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
        let done = remember(&snapshot, &ask(new, None), &Screen::default()).unwrap();
        let after = after(&snapshot, &done.edits);
        let said: Vec<String> = entries(&after).into_iter().map(|(_, line)| line).collect();
        assert!(
            said.contains(&old.to_owned()) && said.contains(&new.to_owned()),
            "{old} | {new}: {said:?}"
        );
    }
}

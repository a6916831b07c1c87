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

/// What all memories say, entry by entry, once a text was remembered beside these.
fn said_after(existing: &[(&str, &str)], content: &str) -> Vec<(String, String)> {
    let stored = existing.iter().map(|(path, text)| Stored {
        path: MemoryPath::parse(path, Layout::Scoped).unwrap(),
        text: (*text).into(),
        pinned: false,
        written: Written::Unknown,
        trust: Trust::Agent,
    });
    let snapshot = of(stored.collect(), "2026-06-01T09:00:00Z".parse().unwrap());
    let done = remember(&snapshot, &ask(content, None), &Screen::default()).unwrap();
    entries(&after(&snapshot, &done.edits))
}

#[test]
fn sentences_that_have_nothing_in_common_are_entries_of_their_own() {
    for (content, expected) in [
        ("The linter is ruff 0.9. Production deploys happen on Fridays at noon.", 2),
        ("Der Linter heißt ruff und läuft lokal. Auslieferungen passieren freitags um zwölf.", 2),
        ("La base tourne sous Postgres 16. Marta valide les maquettes du kiosque.", 2),
        // They say more of the same, point back, set a condition, or say too little by themselves.
        ("The linter is ruff 0.9. The linter runs before every commit.", 1),
        ("The deploy script needs a VPN tunnel. Production operators run it at noon.", 1),
        ("When a unit test fails, leave the assertion alone. Fix the broken code path.", 1),
        ("The linter is ruff 0.9. Run twice.", 1),
        ("El kiosco usa papel térmico de ochenta. Allí imprimen los recibos diarios.", 1),
        ("Linter on ruff jo vuosia käytössä. Julkaisut tehdään perjantaisin klo kaksitoista.", 1),
    ] {
        let said = said_after(&[], content);
        assert_eq!(said.len(), expected, "{content}: {said:?}");
    }
}

#[test]
fn what_holds_in_one_project_rewrites_nothing_that_holds_in_all() {
    let global = "/memories/global/feedback/style.md";
    let project = "/memories/project/feedback/style.md";
    let old = "- Lines have at most 80 characters\n";
    for (content, kept) in [
        ("In this project lines have at most 100 characters.", true),
        ("In this project lines have at most 80 characters, comments too.", true),
        ("Lines have at most 100 characters.", false),
    ] {
        let said = said_after(&[(global, old)], content);
        let is_kept =
            said.contains(&(global.to_owned(), "Lines have at most 80 characters".to_owned()));
        assert_eq!(is_kept, kept, "{content}: {said:?}");
    }
    let said = said_after(&[(project, old)], "In this project lines have at most 100 characters.");
    assert_eq!(said.len(), 1, "{said:?}");
    let said = said_after(&[(project, old)], "In this project lines have at most 80 characters.");
    assert_eq!(said, [(project.to_owned(), "Lines have at most 80 characters".to_owned())]);
}

#[test]
fn whoever_hands_something_over_has_it_no_longer() {
    let path = "/memories/project/project/owners.md";
    let old = "- Tomas owns the tide tables\n- Ilse owns the kiosk\n";
    for content in
        ["Tomas passed the tide tables on to Bruna.", "Tomas gave the tide tables to Bruna."]
    {
        let said = said_after(&[(path, old)], content);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].1.contains("Bruna") && said[1].1 == "Ilse owns the kiosk", "{said:?}");
    }
    let said = said_after(&[(path, old)], "Tomas gave a talk about the tide tables.");
    assert!(said.iter().any(|(_, line)| line == "Tomas owns the tide tables"), "{said:?}");
}

#[test]
fn scope_and_type_follow_from_who_speaks_of_what() {
    for (content, expected) in [
        ("In whichever repo you are, sort the imports", "global/feedback"),
        ("Egal in welchem Projekt: sortiere die Importe", "global/feedback"),
        ("Dans tous mes projets les imports sont triés", "global/"),
        ("Sort the imports in all the projects", "global/feedback"),
        ("In this repo all projects share one lock file", "project/project"),
        ("We log in UTC everywhere", "project/project"),
        ("We decided to use Redis instead of Memcached for the kiosk", "project/project"),
        ("Use Redis for sessions in this repo", "project/feedback"),
        ("Wishes for this repository are gathered in YouTrack", "project/reference"),
        ("Rainwater is gathered in this repository", "project/project"),
        ("As I said before: merges here are squashed, no merge commits", "project/"),
        (
            "Before you drop a table, show me the rows.\n\nWhy: one was lost.\nHow to apply: always.",
            "global/feedback",
        ),
    ] {
        let said = said_after(&[], content);
        let wanted = format!("/memories/{expected}");
        assert!(said.iter().all(|(path, _)| path.starts_with(&wanted)), "{content}: {said:?}");
    }
}

#[test]
fn a_description_made_of_entries_tells_of_those_that_come() {
    let path = MemoryPath::parse("/memories/project/project/kiosk.md", Layout::Scoped).unwrap();
    let after = |head: &str| {
        let text = format!("---\n{head}\n---\n\n- The kiosk uses thermal paper\n").into();
        let (written, trust) = (Written::Unknown, Trust::Agent);
        let stored = Stored { path: path.clone(), text, pinned: false, written, trust };
        let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
        let content = ask("The kiosk paper is 80 mm wide.", None);
        let done = remember(&snapshot, &content, &Screen::default()).unwrap();
        after(&snapshot, &done.edits).remove(&path.to_string()).unwrap()
    };
    let all = "description: The kiosk uses thermal paper; The kiosk paper is 80 mm wide";
    for head in ["description: The kiosk uses thermal paper", "name: kiosk\ndescription: Kiosk"] {
        let text = after(head);
        assert!(text.contains(all), "{text}");
    }
    let text = after("description: Facts on printing");
    assert!(text.contains("description: Facts on printing"), "{text}");
}

#[test]
fn what_is_said_around_a_fact_is_not_kept() {
    for (content, expected) in [
        (
            "Hey, quick note: please remember that berths are let by Ilse, ok? Thanks a lot!",
            &["berths are let by Ilse"][..],
        ),
        (
            "Hallo! Merke dir, dass Ilse die Liegeplätze vergibt. Vielen Dank!",
            &["Ilse die Liegeplätze vergibt."],
        ),
        ("Thanks a lot!", &[]),
        (
            "> Berths are let by Ilse.\n> Boats over 15 m need a pilot.",
            &["Berths are let by Ilse.", "Boats over 15 m need a pilot."],
        ),
        (
            "I'm a potter, I live in Turku, and I can't stand lifts.",
            &["I'm a potter", "I live in Turku", "I can't stand lifts."],
        ),
        ("I know the harbour, I think.", &["I know the harbour, I think."]),
    ] {
        let said: Vec<String> =
            said_after(&[], content).into_iter().map(|(_, line)| line).collect();
        assert_eq!(said, expected, "{content}");
    }
}

#[test]
fn what_is_known_in_other_words_is_not_kept_twice() {
    for (old, new) in [
        ("The user is allergic to peanuts", "I'm allergic to peanuts."),
        ("El usuario vive en Valparaíso", "Vivo en Valparaíso."),
        ("ユーザーは緑茶が好きです", "私は緑茶が好きです。"),
        ("Antworte immer auf Deutsch", "Bitte immer auf Deutsch antworten."),
        ("Ilse lets the berths", "The berths are let by Ilse, thanks."),
    ] {
        let said = said_after(&[("/memories/global/user/a.md", &format!("- {old}\n"))], new);
        assert_eq!(said.len(), 1, "{old} | {new}: {said:?}");
        assert_eq!(said[0].1, old);
    }
}

#[test]
fn what_holds_instead_of_something_takes_its_place_and_no_more() {
    let path = "/memories/project/project/a.md";
    for (old, new, replaced) in [
        (
            "The clause list is reviewed quarterly",
            "The clause list is reviewed monthly, not quarterly.",
            true,
        ),
        ("Ilse lets the berths", "Tomas takes over the berths from Ilse.", true),
        ("The linter checks docs and code", "The linter does not check docs.", false),
        ("Reviews are done by Ilse", "Tide tables are not done by Ilse but by Tomas.", false),
    ] {
        let said = said_after(&[(path, &format!("- {old}\n"))], new);
        let is_gone = !said.iter().any(|(_, line)| line == old);
        assert_eq!(is_gone, replaced, "{old} | {new}: {said:?}");
    }
}

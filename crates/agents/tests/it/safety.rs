//! No entry is removed unless another says the same in the same place, a request names it, or a person agrees.
//!
//! Pairs of near misses check that remembering and dreaming keep both, and requests that they remove nothing else.

use lukasa_agents::rules::{Snapshot, dream, forget, remember};
use lukasa_agents::{
    ContextMode, EntryAction, ForgetRequest, RememberError, RememberReport, RememberRequest,
};
use memory::document;
use memory::path::{Mount, Scope};
use memory::proposal::ProposalKind;
use memory::screen::Screen;

use crate::case::{MemoryTexts, entries, snapshot_of_texts, texts_after};

const PROJECT: &str = "/memories/project/project/a.md";
const OTHER: &str = "/memories/project/project/b.md";

fn ask(content: &str) -> RememberRequest {
    let context_mode = ContextMode::Workspace;
    RememberRequest { content: content.to_owned(), context_mode, scope: None }
}

fn remember_text(snapshot: &Snapshot, content: &str) -> (RememberReport, MemoryTexts) {
    let request = RememberRequest { scope: Some(Scope::Project), ..ask(content) };
    let done = remember(snapshot, &request, &Screen::default()).unwrap();
    let files = texts_after(snapshot, &done.edits);
    (done, files)
}

fn lines(files: &MemoryTexts) -> Vec<String> {
    entries(files).into_iter().map(|(_, line)| line).collect()
}

/// Pairs of statements that share words but mean different things.
const PAIRS: &[(&str, &str)] = &[
    // Roles and order.
    ("Alice reports to Bob", "Bob reports to Alice"),
    ("The API calls the worker", "The worker calls the API"),
    ("Copy prod to staging", "Copy staging to prod every night"),
    ("先に検査してから出荷する", "先に出荷してから検査する"),
    ("Сначала тесты, потом сборка", "Сначала сборка, потом тесты"),
    // A name, a path, a number, a unit, a date.
    ("Never use npm in api/", "Never use npm in web/"),
    ("Staging runs on host kestrel", "Production runs on host kestrel"),
    ("Build with make", "Build with just"),
    ("Deploys are in May", "Deploys are in June"),
    ("Ask Mark about invoices", "Ask Maria about invoices"),
    ("Invoices go to the US office", "Invoices go to us at the office"),
    ("The service is written in C#", "The service is written in C"),
    ("Read .env before start", "Read env before start"),
    ("The limit is 50 MB", "The limit is 50 GB"),
    ("The timeout is 30 s", "The timeout is 60 s"),
    ("Release on 2026-05-01", "Release on 2026-06-01"),
    ("Use option -c there", "Use option -C there"),
    ("See docs/a.md", "See docs/A.md"),
    ("猫を二匹飼っている", "犬を二匹飼っている"),
    // Negation and small words.
    ("The linter checks docs", "The linter does not check docs"),
    ("Deploy before the backup", "Deploy after the backup"),
    ("The lamp is on", "The lamp is off"),
    ("Some hosts allow root", "Every host allows root"),
    ("They pay us monthly", "We pay them monthly"),
    ("Push with tests", "Push without tests"),
    ("Ist der Server an?", "Ist der Server an"),
    // One says more or less than the other.
    ("Uses VS Code with vim keys", "I switched from VS Code to Zed"),
    ("Uses Jenkins for deploys", "We no longer use Jenkins"),
    ("Owner: Priya", "Owner: Tom"),
    ("The cluster has three nodes", "The cluster has three nodes in two zones"),
    ("The door is green", "The door is blue"),
];

#[test]
fn statements_with_different_meanings_both_stay() {
    for (one, other) in PAIRS.iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
        let snapshot = snapshot_of_texts(&[(PROJECT, &format!("- {one}\n"))]);
        let (done, files) = remember_text(&snapshot, other);
        let kept = lines(&files);
        let both = [one, other].iter().all(|line| kept.contains(&(**line).to_owned()));
        assert!(both, "{one} | {other}: {kept:?} {done:?}");

        let snapshot = snapshot_of_texts(&[(PROJECT, &format!("- {one}\n- {other}\n"))]);
        let done = dream(&snapshot);
        assert_eq!((done.merged_entries, done.edits.len()), (0, 0), "{one} | {other}: {done:?}");
    }
}

#[test]
fn a_fact_repeated_word_for_word_is_known() {
    for line in PAIRS.iter().flat_map(|(a, b)| [a, b]).filter(|line| line.split(' ').count() > 3) {
        let snapshot = snapshot_of_texts(&[(PROJECT, &format!("- {line}\n"))]);
        for again in [(*line).to_owned(), format!("  {line}.  "), line.replace(' ', "  ")] {
            if line.ends_with('?') && again.contains("?.") {
                continue;
            }
            let (done, files) = remember_text(&snapshot, &again);
            assert_eq!(lines(&files), [*line], "{again} {done:?}");
            assert_eq!(done.summary, "Nothing to save: it is known already.");
            assert_eq!(done.changes[0].action, EntryAction::Known);
        }
    }
}

#[test]
fn the_same_line_in_other_contexts_stays() {
    for memories in [
        &[(PROJECT, "- Owner: Priya\n"), (OTHER, "- Owner: Priya\n")][..],
        &[(PROJECT, "## Ada\n\n- Works on Fridays only\n\n## Tobe\n\n- Works on Fridays only\n")],
        &[(PROJECT, "Ada:\n\n- Works on Fridays only\n\nTobe:\n\n- Works on Fridays only\n")],
        &[(PROJECT, "1. Restart the gateway first\n2. Wait\n3. Restart the gateway first\n")],
        &[(PROJECT, "```\nx = 1\n```\n\ntext\n\n## b\n\n```\nx = 1\n```\n")],
        &[(
            PROJECT,
            "Title\n=====\n\n- one more line here\n\nOther\n-----\n\n- one more line here\n",
        )],
        &[
            ("/memories/global/user/a.md", "- Use tabs in all files\n"),
            (PROJECT, "- Use tabs in all files\n"),
        ],
    ] {
        let snapshot = snapshot_of_texts(memories);
        let done = dream(&snapshot);
        assert_eq!(done.edits, [], "{memories:?}");
    }
    let snapshot = snapshot_of_texts(&[(PROJECT, "## Ada\n\n- Works on Fridays only\n")]);
    let (_, files) = remember_text(&snapshot, "Works on Fridays only");
    assert_eq!(lines(&files).len(), 2, "{files:?}");
    // The added entry is not placed below another heading.
    assert_eq!(files[PROJECT], "## Ada\n\n- Works on Fridays only\n");
}

#[test]
fn structured_text_is_kept_unchanged() {
    for text in [
        "- one thing\n- another thing\n  - nested below it\n    1. deeper",
        "## Release\n\n1. bump the version\n2. run `make docs`\n\nThen rest.",
        "| host | port |\n|------|------|\n| kestrel | 80 |\n| osprey | 80 |",
        "Settings that work:\n\n```toml\n[radio]\nfrequency = 868.3\n\n# a comment\n```",
        "- [ ] call Ada\n- [x] call Tobe",
        "> quoted\n> twice",
        "First paragraph.\n\nSecond paragraph.\n\n- and a list",
        "項目:\n\n- 一つ目\n- 二つ目",
        "```\nno words\n```",
        "- old line\n+ new line\n  kept line",
        "server:\n  port: 80\n  hosts:\n    - osprey",
        "{\n  \"port\": 80\n}",
        "!!! note\n    Mind the tide.",
        ":::warning\nMind the tide.\n:::",
        "+++\ntitle = \"Tides\"\n+++",
        "$$\na = b\n$$",
        "    let a = 1;\n    let b = 2;",
        "The owl sleeps,  \nthe fox does not.",
        "key\tvalue\nport\t80",
        "- owl\n    - barn\n    - port 80",
        "* owl\n    1. barn\n    2. attic",
        "* TODO Feed the owl\n** DONE Count the owls",
        "***\nowl\n***",
    ] {
        let nothing = snapshot_of_texts(&[]);
        let (done, files) = remember_text(&nothing, text);
        let body = document::body(files.values().next().unwrap()).trim_matches('\n').to_owned();
        assert_eq!((body.as_str(), files.len()), (text, 1), "{done:?}");
        let memories: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let snapshot = snapshot_of_texts(&memories);
        assert_eq!(remember_text(&snapshot, text).1, files, "repeated");
        assert_eq!(
            remember_text(&snapshot, &text.replace('\n', "\r\n")).1,
            files,
            "repeated with CRLF"
        );
        assert_eq!(dream(&snapshot).edits, [], "{text}");
    }
}

#[test]
fn a_lone_heading_is_kept_as_a_statement() {
    for text in ["# Mind the tide", "Mind the tide\n---", "Mind the tide\n======"] {
        assert_eq!(
            lines(&remember_text(&snapshot_of_texts(&[]), text).1),
            ["Mind the tide"],
            "{text:?}"
        );
    }
}

#[test]
fn an_existing_name_and_description_are_not_changed() {
    let text = "---\nname: CI\ndescription: CI runs on Jenkins\n---\n\n- CI runs on Jenkins in the cellar\n";
    let snapshot = snapshot_of_texts(&[(PROJECT, text)]);
    for fact in [
        "CI no longer runs on Jenkins in the cellar",
        "CI runs on Jenkins in the attic",
        "CI runs on arm",
    ] {
        for text in remember_text(&snapshot, fact).1.values().take(1) {
            assert!(
                text.starts_with("---\nname: CI\ndescription: CI runs on Jenkins\n---\n"),
                "{text}"
            );
        }
    }
    assert_eq!(dream(&snapshot).edits, []);
}

#[test]
fn an_explicit_new_value_replaces_the_old_entry() {
    for (old, new) in [
        ("The upload limit is 5 MB", "The upload limit is now 9 MB"),
        ("We deploy from Jenkins", "We no longer deploy from Jenkins"),
    ] {
        let snapshot =
            snapshot_of_texts(&[(PROJECT, &format!("- {old}\n- Something else entirely\n"))]);
        let (done, files) = remember_text(&snapshot, new);
        assert_eq!(lines(&files), [new, "Something else entirely"]);
        assert_eq!(done.changes[0].action, EntryAction::Updated);
        assert_eq!(done.changes[0].summary, new);
    }
    // Not replaced: two possible entries, reasons that would be lost, and an entry below a heading.
    for text in [
        "- The upload limit is 5 MB\n- The upload limit is 7 MB\n",
        "- The upload limit is 5 MB\n  Why: the proxy\n",
        "## api\n\n- The upload limit is 5 MB\n",
    ] {
        let snapshot = snapshot_of_texts(&[(PROJECT, text)]);
        let (_, files) = remember_text(&snapshot, "The upload limit is now 9 MB");
        assert_eq!(lines(&files).len(), lines(&texts_after(&snapshot, &[])).len() + 1, "{text}");
    }
}

#[test]
fn an_uncertain_repetition_is_proposed_with_both_texts() {
    let old = "Ngozi owns the rostering solver";
    let snapshot = snapshot_of_texts(&[(PROJECT, &format!("- {old}\n"))]);
    let (done, files) = remember_text(&snapshot, "The rostering solver is owned by Ngozi");
    let [proposal] = &done.proposals[..] else { panic!("{done:?}") };
    assert_eq!(proposal.kind, ProposalKind::Repetition);
    assert_eq!(proposal.relies_on[0].text, old);
    assert!(proposal.reason.contains(old), "{}", proposal.reason);
    let change = &proposal.changes[0];
    let left = change.apply(&files[&change.path.to_string()]).unwrap();
    assert_eq!(left, format!("- {old}\n"));
}

#[test]
fn past_events_with_lasting_facts_do_not_expire() {
    for line in [
        "The pen test ended on 2026-03-12, four findings are open",
        "Support for IE ended on 2025-01-31, so no polyfills",
        "The old checkout was switched off on 2025-11-30",
        "Did not work until 2026-02-01",
        "Lived in Porto until 2024-01-01, then in Braga",
    ] {
        let done = dream(&snapshot_of_texts(&[(PROJECT, &format!("- {line}\n"))]));
        assert_eq!((&done.edits, &done.proposals), (&Vec::new(), &Vec::new()), "{line}");
    }
    let done = dream(&snapshot_of_texts(&[(PROJECT, "- Code freeze until 2026-02-28\n")]));
    assert_eq!(done.edits, [], "an expired entry is proposed, not removed");
    assert_eq!(done.proposals[0].kind, ProposalKind::Expiry);
}

#[test]
fn a_memory_with_a_merge_conflict_is_skipped_and_named() {
    let text = "<<<<<<< HEAD\n- the gate is green\n- the gate is green\n=======\n- the gate is red\n>>>>>>> main\n";
    let done =
        dream(&snapshot_of_texts(&[(PROJECT, text), (OTHER, "- it is late\n- it is late.\n")]));
    assert_eq!((done.edits.len(), done.merged_entries), (1, 1));
    assert_eq!(done.edits[0].path().to_string(), OTHER);
    assert!(
        done.summary.ends_with(&format!("because of merge conflicts: {PROJECT}.")),
        "{}",
        done.summary
    );
}

#[test]
fn a_fact_is_not_added_to_a_memory_with_a_merge_conflict() {
    let resolved = "- The gate opens at eight\n- The gate key is in the office\n";
    let conflict = format!(
        "{resolved}\n<<<<<<< HEAD\n- The gate is green\n=======\n>>>>>>> main\n\n- The gate is old\n"
    );
    let fact = "The gate closes at nine";
    let (done, files) = remember_text(&snapshot_of_texts(&[(PROJECT, &conflict)]), fact);
    assert_eq!(files.get(PROJECT), Some(&conflict), "{done:?}");
    assert!(files.values().any(|text| text.contains(fact)), "{files:?}");
    // One side may be rejected yet, so its entry does not make a fact known.
    let (_, files) =
        remember_text(&snapshot_of_texts(&[(PROJECT, &conflict)]), "The gate is green");
    assert_eq!(files.values().filter(|text| text.contains("gate is green")).count(), 2);
}

#[test]
fn a_dream_changes_at_most_as_many_memories_as_a_person_can_review() {
    let texts: Vec<(String, String)> = (0..60)
        .map(|at| {
            (
                format!("/memories/project/m{at}.md"),
                format!("- gate {at} is open\n- gate {at} is open\n"),
            )
        })
        .collect();
    let memories: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (&**path, &**text)).collect();
    let done = dream(&snapshot_of_texts(&memories));
    assert_eq!((done.edits.len(), done.merged_entries, done.deferred), (20, 20, 40));
    assert!(done.summary.contains("Left for another dream"), "{}", done.summary);
}

#[test]
fn private_facts_are_not_written_to_a_repository_unasked() {
    let both = snapshot_of_texts(&[]);
    let mut shared_only = snapshot_of_texts(&[]);
    shared_only.writable = vec![Mount::Scope(Scope::Project)];
    for content in [
        "Diagnosed with MS in 2021",
        "Therapy on Tuesdays at 5",
        "My wife is called Ana",
        "Dentist is on Friday at nine",
        "Salary is paid on the 25th",
        "Home address is Rua Augusta 5",
        "Reach me at marta@example.org",
        "In this repo we use tabs, and my wife is pregnant",
        "In this project, use tabs\n\nMy mother is ill",
        "This project is late because my father died",
        "Bob is on sick leave because of burnout",
        "Call Anna at 0170 1234567",
        "Contact: bob@example.com",
        "Meine Frau heißt Ilse",
        "Mi hijo nació en mayo",
        "J'ai une allergie aux noix",
        "У меня аллергия на орехи",
        "We are expecting a baby in June",
        "Grandpa lives with us",
        "Overdraft is 700 at the moment",
        "Olga had a stroke",
        "Notre fils a deux ans",
        "Unser Kind hat Asthma",
        "妻の名前は花子です",
        "抑郁症，每天吃药",
    ] {
        let done = remember(&both, &ask(content), &Screen::default()).unwrap();
        let scopes: Vec<Mount> = done.scopes.into_iter().collect();
        assert_eq!(scopes, [Mount::Scope(Scope::Global)], "{content}");
        let refused = remember(&shared_only, &ask(content), &Screen::default());
        assert_eq!(refused, Err(RememberError::ScopeMismatch), "{content}");
    }
    let done = dream(&snapshot_of_texts(&[(
        PROJECT,
        "- Diagnosed with MS in 2021\n- The gate is green\n",
    )]));
    assert_eq!(done.proposals[0].kind, ProposalKind::Misplacement);
}

#[test]
fn a_fact_about_this_repository_needs_a_writable_project() {
    let mut outside = snapshot_of_texts(&[]);
    outside.writable = vec![Mount::Scope(Scope::Global)];
    let refused =
        remember(&outside, &ask("In this repository we indent with tabs"), &Screen::default());
    assert_eq!(refused, Err(RememberError::NoProject));
}

#[test]
fn relative_dates_use_the_persons_time_zone() {
    let mut snapshot = snapshot_of_texts(&[]);
    snapshot.now = "2026-06-02T03:00:00Z".parse().unwrap();
    snapshot.time_zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(-7));
    let (_, files) = remember_text(&snapshot, "The demo of the gate is tomorrow");
    assert!(lines(&files)[0].contains("2026-06-02"), "{files:?}");
}

#[test]
fn words_that_may_be_no_date_are_kept() {
    let mut snapshot = snapshot_of_texts(&[]);
    snapshot.now = "2026-06-02T12:00:00Z".parse().unwrap();
    for (content, expected) in [
        ("The demo of the gate is tomorrow", "The demo of the gate is on 2026-06-03"),
        ("The branch is called tomorrow", "The branch is called tomorrow (2026-06-03)"),
        ("If a test fails today, mend it", "If a test fails today (2026-06-02), mend it"),
        ("The report covers last week", "The report covers last week (2026-05-25/2026-05-31)"),
        ("Never promise anything for tomorrow", "Never promise anything for tomorrow (2026-06-03)"),
        ("The party was yesterday (2026-06-01)", "The party was yesterday (2026-06-01)"),
    ] {
        let (_, files) = remember_text(&snapshot, content);
        assert_eq!(lines(&files), [expected]);
    }
}

#[test]
fn a_statement_never_replaces_code() {
    let text = "The port is 80\n\n```\nThe port is 80\n```\n";
    let snapshot = snapshot_of_texts(&[(PROJECT, text)]);
    let (done, _) = remember_text(&snapshot, "The port is now 81");
    let goes =
        done.proposals.iter().flat_map(|one| &one.changes).filter_map(|one| one.old.as_ref());
    assert!(goes.clone().all(|old| !old.contains("```")), "{done:?}");
}

#[test]
fn a_step_is_removed_only_from_a_memory_that_a_person_chose() {
    let snapshot =
        snapshot_of_texts(&[(PROJECT, "1. drain the tank\n2. swap the pump\n3. start it\n")]);
    let request = |file| ForgetRequest { query: "swap the pump".to_owned(), scope: None, file };
    let done = forget(&snapshot, &request(None));
    assert_eq!((done.removed.len(), done.candidates.len()), (0, 1));
    let chosen = forget(&snapshot, &request(Some(done.candidates[0].path.clone())));
    assert_eq!(chosen.removed.len(), 1);
}

const STORE: &[(&str, &str)] = &[
    (
        "/memories/project/project/data.md",
        "- Redis holds the sessions\n- Postgres holds the orders\n- Product owner is Ada\n\
         - Stripe takes the cards\n- Adyen takes the vouchers\n- Cache in Redis; data in Postgres. Both are backed up\n",
    ),
    (
        "/memories/global/user/me.md",
        "- Prefers dark mode\n- I don't drink coffee after noon\n- The lamp is on\n",
    ),
];

#[test]
fn only_clearly_meant_entries_are_forgotten() {
    for (query, expected) in [
        ("keep the note on Redis, forget the one on Postgres", &[][..]),
        ("forget all except Stripe", &[]),
        ("forget everything but not Stripe", &[]),
        ("don't forget Stripe", &[]),
        ("I never want you to forget dark mode", &[]),
        ("I always forget that Adyen takes the vouchers somehow", &[]),
        ("Keep the Stripe note", &[]),
        ("Vergiss Stripe nicht", &[]),
        ("forget production", &[]),
        ("forget a", &[]),
        ("forget it", &[]),
        ("forget", &[]),
        ("", &[]),
        ("what do you know about Stripe?", &[]),
        ("Stripe?", &[]),
        ("forget holds", &[]),
        ("forget Redis", &[]),
        ("forget the", &[]),
        ("forget that the lamp is off", &[]),
        ("forget that I drink coffee after noon", &[]),
        ("forget us", &[]),
        ("forget Stripe", &["Stripe takes the cards"]),
        ("Stripe", &["Stripe takes the cards"]),
        ("my dark mode preference", &["Prefers dark mode"]),
        ("the vouchers of Adyen", &["Adyen takes the vouchers"]),
        ("please forget that Adyen takes the vouchers", &["Adyen takes the vouchers"]),
        ("forget my dark mode preference", &["Prefers dark mode"]),
        ("forget that Redis holds the sessions", &["Redis holds the sessions"]),
        ("that Redis holds the sessions", &["Redis holds the sessions"]),
        ("everything about Stripe", &["Stripe takes the cards"]),
        ("all tests", &[]),
        ("forget “Postgres holds the orders”", &["Postgres holds the orders"]),
    ] {
        let snapshot = snapshot_of_texts(STORE);
        let done =
            forget(&snapshot, &ForgetRequest { query: query.to_owned(), scope: None, file: None });
        let removed: Vec<&str> = done.removed.iter().map(|entry| entry.summary.as_str()).collect();
        assert_eq!(removed, expected, "{query:?}: {:?}", done.candidates);
        let before = lines(&texts_after(&snapshot, &[]));
        let remaining = lines(&texts_after(&snapshot, &done.edits));
        let lost: Vec<&String> = before.iter().filter(|line| !remaining.contains(line)).collect();
        assert_eq!(lost, expected, "{query:?}");
    }
}

#[test]
fn copies_of_an_entry_are_forgotten_together() {
    let forgotten = |memories: &[(&str, &str)], query: &str| {
        let query = query.to_owned();
        forget(&snapshot_of_texts(memories), &ForgetRequest { query, scope: None, file: None })
            .removed
            .len()
    };
    let copies = [(PROJECT, "- Deploys run on Fridays\n"), (OTHER, "- deploys run on  Fridays.\n")];
    assert_eq!(forgotten(&copies, "deploys"), 2);
    assert_eq!(forgotten(&copies, "forget that deploys run on Fridays"), 2);
    let apart =
        [(PROJECT, "## a\n\n- Deploys run on Fridays\n"), (OTHER, "- Deploys run on Fridays\n")];
    assert_eq!(forgotten(&apart, "deploys"), 0);
    let values = [(PROJECT, "- Owner: Priya\n"), (OTHER, "- Owner: Priya\n")];
    assert_eq!(forgotten(&values, "Owner: Priya"), 0);
}

#[test]
fn a_request_that_contradicts_an_entry_removes_nothing() {
    for (entry, query) in [
        ("Carol is not a manager", "Carol is a manager"),
        ("Do not use yarn", "Use yarn"),
        ("We don't sell data", "We sell data"),
        ("Deploys run on Fridays", "find deploys"),
        ("Stripe takes the cards", "stop forgetting Stripe"),
        ("Fly hosts the API & Doppler holds secrets", "forget Fly"),
        ("Fly hosts the API / Doppler holds secrets", "forget Fly"),
        ("Jenkins was retired unless Windows needs it", "forget Jenkins"),
        ("Deploys run on Fridays", "deploys matter"),
        ("Carol is not a manager", "forget that Carol is a manager"),
        ("Bob hates mushrooms", "forget that Bob likes mushrooms"),
        ("Kein Deploy am Freitag", "vergiss Deploy am Freitag"),
        ("Nous n'utilisons pas Maven", "oublie que nous utilisons Maven"),
        ("我们不用Bazel", "忘记我们用Bazel"),
        ("Мы не используем Ant", "забудь, что мы используем Ant"),
        ("Never push to main without review", "forget that you may push to main without review"),
        ("Backups are stored in Oslo", "forget that backups are not stored in Oslo"),
        ("Only admins read the vault", "forget that all users read the vault"),
        ("Users may upload PDFs unless they are guests", "forget that guests may upload PDFs"),
        ("Most tests are slow", "forget that all tests are slow"),
        ("Bob said that the vault is empty", "forget that the vault is empty"),
        ("Stripe takes the cards", "forget everything but Stripe"),
        ("Stripe takes the cards", "forget Stripe if it is outdated"),
        ("Stripe takes the cards", "forget-me-not Stripe"),
        ("Stripe takes the cards", "forget Stripe? no"),
        ("Rosa reviews Emil", "forget that Emil reviews Rosa"),
        ("Rosa reviews Emil", "Emil reviews Rosa"),
        ("The scheduler calls the mailer", "the mailer calls the scheduler"),
        ("Rosa prüft Emil", "Vergiss, dass Emil Rosa prüft"),
        ("Rosa relit Emil", "oublie que Emil relit Rosa"),
        ("Ticket 7 needs 9", "forget ticket 9 needs 7"),
        ("決済はStripeです。", "Stripeを忘れるな"),
        ("決済はStripeです。", "Stripeは忘れちゃだめ"),
        ("決済はStripeです。", "Stripeを消すべき？"),
        ("決済はStripeです。", "Stripeを消すな！"),
        ("Deploys run on Fridays", "hold on to deploys"),
        ("Deploys run on Fridays", "forget deploys without Fridays"),
        ("Deploys run on Fridays", "I forgot the deploys"),
        ("Deploys run on Fridays", "tell me about deploys"),
        ("Keep the changelog short", "keep the changelog"),
        ("We go live on Monday", "forget everything about Go"),
        ("Never share the admin password", "forget the password"),
        ("Kafka and RabbitMQ carry events", "forget Kafka"),
        ("Stripe takes cards\n  - webhooks are signed", "forget Stripe"),
        ("Nie używamy Gradle", "zapomnij używamy Gradle"),
    ] {
        let snapshot =
            snapshot_of_texts(&[(PROJECT, &format!("- {entry}\n- Something else entirely\n"))]);
        let done =
            forget(&snapshot, &ForgetRequest { query: query.to_owned(), scope: None, file: None });
        assert_eq!(done.edits, [], "{entry} | {query}");
    }
    let conflict =
        "- foo\n\n<<<<<<< HEAD\n- The port is 8080\n=======\n- The port is 9090\n>>>>>>> b\n";
    let query = "The port is 8080".to_owned();
    let done = forget(
        &snapshot_of_texts(&[(PROJECT, conflict)]),
        &ForgetRequest { query, scope: None, file: None },
    );
    assert_eq!(done.edits, []);
}

#[test]
fn headings_and_frontmatter_of_a_text_are_kept() {
    for text in [
        "Prod\n====\n- The port is 8080",
        "Ideas we rejected\n------\n\nShip it on Friday",
        "# Prod\n- The port is 8080",
        "---\nowner: Anna\nrunbook: wiki/db\n---\n\nThe build uses make",
    ] {
        let known = snapshot_of_texts(&[(
            PROJECT,
            "# Staging\n\n- The port is 8080\n- Ship it on Friday\n",
        )]);
        for snapshot in [snapshot_of_texts(&[]), known] {
            let (done, files) = remember_text(&snapshot, text);
            let is_kept = files.values().any(|file| text.lines().all(|line| file.contains(line)));
            assert!(is_kept, "{text:?} {done:?}");
        }
    }
    for (text, line) in
        [("# Always run lint", "Always run lint"), ("---\nNever on Friday\n---", "Never on Friday")]
    {
        let (_, files) = remember_text(&snapshot_of_texts(&[]), text);
        assert!(files.values().any(|file| file.contains(line)), "{files:?}");
    }
    // The added entry is not placed below an empty heading.
    let text = "- The API gateway timeout on kestrel is long\n\n# Wrong ideas\n";
    let (_, files) = remember_text(
        &snapshot_of_texts(&[(PROJECT, text)]),
        "The API gateway timeout on kestrel is fine",
    );
    assert_eq!(files[PROJECT], text);
}

#[test]
fn deliberate_repetitions_stay() {
    for text in [
        "Q: Is prod safe?\n\nYes, it is.\n\nQ: Is dev safe?\n\nYes, it is.\n",
        "- name: db1\n- port: 5432\n- name: db2\n- port: 5432\n",
        "**Anna**\n\nworks from home\n\n**Bob**\n\nworks from home\n",
        "How to release:\n\n- Run all the tests\n- Bump the version\n- Run all the tests\n",
        "- Works from home on Fridays\n\n---\n\n- Works from home on Fridays\n",
        "## Release\n\n- Run all the tests\n- Bump the version\n- Run all the tests\n",
        "- Die Arme heben im Takt\n- Die arme heben im Takt\n",
    ] {
        assert_eq!(dream(&snapshot_of_texts(&[(PROJECT, text)])).edits, [], "{text}");
    }
}

#[test]
fn an_unclear_request_is_answered_with_candidates() {
    for (query, first) in [
        ("forget Redis", "Redis holds the sessions"),
        ("forget the coffee thing", "I don't drink coffee after noon"),
        ("forget what takes the cards, or not?", "Stripe takes the cards"),
        ("forget all except Stripe", "Stripe takes the cards"),
        ("forget the vouhcers", "Adyen takes the vouchers"),
    ] {
        let snapshot = snapshot_of_texts(STORE);
        let done =
            forget(&snapshot, &ForgetRequest { query: query.to_owned(), scope: None, file: None });
        if done.removed.is_empty() {
            assert_eq!(
                done.candidates.first().map(|one| one.summary.as_str()),
                Some(first),
                "{query}"
            );
            assert!(done.summary.contains("may be meant"), "{}", done.summary);
        } else {
            assert_eq!(done.removed[0].summary, first, "{query}");
        }
        // A request with a candidate's text means only that entry.
        for candidate in done.candidates {
            let exact = forget(
                &snapshot,
                &ForgetRequest { query: candidate.entry.clone(), scope: None, file: None },
            );
            assert_eq!(exact.removed.len(), 1, "{candidate:?}");
            assert_eq!(exact.removed[0].summary, candidate.summary);
        }
    }
}

#[test]
fn a_pinned_memory_is_named_and_kept() {
    let mut snapshot = snapshot_of_texts(STORE);
    snapshot.memories[0].pinned = true;
    let query = "forget Stripe".to_owned();
    let done = forget(&snapshot, &ForgetRequest { query, scope: None, file: None });
    assert_eq!(done.edits, []);
    assert_eq!(
        done.summary,
        "No managed auto-memory entries matched that may be removed. Pinned memories were left alone: \
         /memories/project/project/data.md."
    );
}

#[test]
fn no_match_says_so() {
    let query = "forget the submarine".to_owned();
    let done = forget(&snapshot_of_texts(STORE), &ForgetRequest { query, scope: None, file: None });
    assert_eq!(done.summary, "No managed auto-memory entries matched.");
    assert_eq!(done.candidates, []);
}

#[test]
fn a_forgotten_entry_is_removed_from_name_and_description() {
    let body = "- I live in Porto\n- I keep bees.\n";
    for (head, expected) in [
        ("live porto\ndescription: I live in Porto", "keep bees\ndescription: I keep bees"),
        ("home\ndescription: Where I live", "home\ndescription: Where I live"),
    ] {
        let path = "/memories/global/user/live-porto.md";
        let snapshot = snapshot_of_texts(&[(path, &format!("---\nname: {head}\n---\n\n{body}"))]);
        let query = "forget that I live in Porto".to_owned();
        let done = forget(&snapshot, &ForgetRequest { query, scope: None, file: None });
        let remaining = &texts_after(&snapshot, &done.edits)[path];
        assert_eq!(*remaining, format!("---\nname: {expected}\n---\n\n- I keep bees.\n"), "{head}");
    }
}

#[test]
fn opposite_rules_and_swapped_preferences_are_proposed_and_both_stay() {
    for (one, other) in [
        ("Never deploy on Fridays.", "Always deploy on Fridays."),
        ("Do not squash merge commits.", "Always squash merge commits."),
        ("Immer freitags um neun deployen.", "Nie freitags um neun deployen."),
        ("Toujours signer les images Docker.", "Ne jamais signer les images Docker."),
        ("Siempre firmar las imágenes Docker.", "Nunca firmar las imágenes Docker."),
        ("Всегда подписывать образы Docker.", "Никогда не подписывать образы Docker."),
        ("总是在服务器部署代码。", "从不在服务器部署代码。"),
        ("I prefer tabs over spaces.", "I prefer spaces over tabs."),
        ("Use rebase instead of merge.", "Use merge instead of rebase."),
        ("Ich bevorzuge Tabs statt Leerzeichen.", "Ich bevorzuge Leerzeichen statt Tabs."),
    ] {
        let snapshot = snapshot_of_texts(&[(PROJECT, &format!("- {one}\n- {other}\n"))]);
        let dreamt = dream(&snapshot);
        let kinds: Vec<_> = dreamt.proposals.iter().map(|proposal| proposal.kind).collect();
        assert_eq!((dreamt.edits, kinds), (Vec::new(), vec![ProposalKind::Contradiction]), "{one}");
        let snapshot = snapshot_of_texts(&[(PROJECT, &format!("- {one}\n"))]);
        let request = RememberRequest { scope: Some(Scope::Project), ..ask(other) };
        let done = remember(&snapshot, &request, &Screen::default()).unwrap();
        assert_eq!(done.proposals[0].kind, ProposalKind::Contradiction, "{other}");
        assert_eq!(lines(&texts_after(&snapshot, &done.edits)).len(), 2, "{other}");
    }
    for (one, other) in [
        ("Never deploy on Fridays.", "Always deploy on Mondays."),
        ("I prefer tabs over spaces.", "I prefer tabs over commas."),
        ("Always deploy on Fridays.", "Always test on Fridays."),
        ("Ada reports to Ben.", "Ben reports to Ada."),
    ] {
        let snapshot = snapshot_of_texts(&[(PROJECT, &format!("- {one}\n- {other}\n"))]);
        assert_eq!(dream(&snapshot).proposals, [], "{one}");
    }
}

/// Returns a memory with this description and these entries.
fn described(description: &str, entries: &[&str]) -> String {
    let lines = entries.iter().fold(String::new(), |lines, entry| lines + "- " + entry + "\n");
    format!("---\ndescription: {description}\n---\n\n{lines}")
}

#[test]
fn a_generated_description_follows_its_entries() {
    // By dreams: a day that is named, and a repetition.
    for (before, after) in [
        (
            described("The repair is tomorrow", &["The repair is tomorrow"]),
            described("The repair is on 2026-05-21", &["The repair is on 2026-05-21"]),
        ),
        (
            described("Gates are green; gates are green", &["Gates are green", "gates are green."]),
            described("Gates are green", &["Gates are green"]),
        ),
        (
            described("when we repair", &["The repair is tomorrow"]),
            described("when we repair", &["The repair is on 2026-05-21"]),
        ),
    ] {
        // A dream may add two percent.
        let other = ("/memories/project/project/other.md", &*"- A long line\n".repeat(200));
        let snapshot = snapshot_of_texts(&[(PROJECT, &before), other]);
        let files = texts_after(&snapshot, &dream(&snapshot).edits);
        assert_eq!(files[PROJECT], after, "{before}");
    }
    // By a fact that replaces an entry, and by one that is added.
    let old = ["The upload limit is 5 MB", "The upload folder is full"];
    let new = ["The upload limit is now 9 MB", "The upload folder is full"];
    for (before, fact, after) in [
        (described(old[0], &old), new[0], described(new[0], &new)),
        (described("uploads", &old), new[0], described("uploads", &new)),
        (
            described(old[0], &old[..1]),
            "The upload limit is checked twice",
            described(
                "The upload limit is checked twice",
                &[old[0], "The upload limit is checked twice"],
            ),
        ),
    ] {
        let snapshot = snapshot_of_texts(&[(PROJECT, &before)]);
        let (_, files) = remember_text(&snapshot, fact);
        assert_eq!(files[PROJECT], after, "{before}");
    }
}

#[test]
fn the_summary_never_quotes_the_content() {
    let done =
        remember(&snapshot_of_texts(&[]), &ask("I collect porcelain owls."), &Screen::default())
            .unwrap();
    assert_eq!(done.summary, "Saved to the global memories: 1 new, 0 updated, 0 known already.");
}

#[test]
fn greetings_and_requests_around_a_fact_are_not_kept() {
    for (content, expected) in [
        ("Please remember that the gate opens at six.", "the gate opens at six."),
        ("Hey, note: the gate opens at six. Thanks!", "the gate opens at six."),
        ("Merke dir: das Tor öffnet um sechs", "das Tor öffnet um sechs"),
        ("Note the port of the gate", "Note the port of the gate"),
        ("Remember: .npmrc is ignored. Thanks!", ".npmrc is ignored."),
        ("Note: --offline is the default, thanks", "--offline is the default"),
        ("The pattern is lib/**. Cheers!", "The pattern is lib/**."),
        ("Call `sync()`, danke!", "Call `sync()`"),
        ("The letter ends with: Kind regards", "The letter ends with: Kind regards"),
        ("The letter ends with \"Best, Olga\"", "The letter ends with \"Best, Olga\""),
        ("The quota is 40 % thanks", "The quota is 40 % thanks"),
    ] {
        let (_, files) = remember_text(&snapshot_of_texts(&[]), content);
        assert_eq!(lines(&files), [expected], "{content}");
    }
    let (done, _) = remember_text(&snapshot_of_texts(&[]), "Thanks a lot!");
    assert_eq!(done.edits, [], "{done:?}");
}

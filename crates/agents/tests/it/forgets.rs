//! Forget, case by case.

use agents::ForgetRequest;
use agents::embedded::{Stored, Written, forget};
use memory::change::Trust;
use memory::path::{Layout, MemoryPath};

use crate::case::{after, cases, list, of, scope, snapshot, text};

#[test]
fn exactly_what_is_meant_is_removed() {
    for case in cases(include_str!("cases/forget.jsonl")) {
        let snapshot = snapshot(&case, "memories");
        let query = text(&case, "query").to_owned();
        let done = forget(&snapshot, &ForgetRequest { query, scope: scope(&case) });
        let mut removed: Vec<(String, String)> = done
            .removed
            .iter()
            .map(|entry| (entry.path.to_string(), entry.summary.trim().to_owned()))
            .collect();
        let mut wanted: Vec<(String, String)> = list(&case["expect"], "removed")
            .iter()
            .map(|entry| (text(entry, "path").to_owned(), text(entry, "entry").to_owned()))
            .collect();
        removed.sort();
        wanted.sort();
        assert_eq!(removed, wanted, "{} {}", case["id"], case["query"]);
        assert_eq!(done.edits.is_empty(), wanted.is_empty());
    }
}

#[test]
fn no_match_says_so() {
    let case = cases(include_str!("cases/forget.jsonl")).remove(0);
    let snapshot = snapshot(&case, "memories");
    let done = forget(&snapshot, &ForgetRequest { query: "submarine".to_owned(), scope: None });
    assert_eq!(done.summary, "No managed auto-memory entries matched.");
}

#[test]
fn a_pinned_memory_is_named_and_kept() {
    let mut case = cases(include_str!("cases/forget.jsonl")).remove(0);
    case["pinned"] = serde_json::json!(["/memories/global/user/me.md"]);
    let snapshot = snapshot(&case, "memories");
    let done = forget(&snapshot, &ForgetRequest { query: "cello".to_owned(), scope: None });
    assert_eq!(done.edits, []);
    assert_eq!(
        done.summary,
        "No managed auto-memory entries matched that may be removed. Pinned memories were left alone: \
         /memories/global/user/me.md."
    );
}

#[test]
fn a_name_and_a_description_go_with_what_they_repeat() {
    let memory = |head: &str, body: &str| format!("---\nname: {head}\n---\n\n{body}");
    let body = "- I live in Porto\n- I keep bees.\n";
    for (head, expected) in [
        ("live porto\ndescription: I live in Porto", "keep bees\ndescription: I keep bees"),
        ("home\ndescription: \"Me: i live in  Porto, and bees\"", "home\ndescription: I keep bees"),
        (
            "I live in Porto!\ndescription: \"I *live* in Porto\"",
            "keep bees\ndescription: I keep bees",
        ),
        ("home\ndescription: Where I live", "home\ndescription: Where I live"),
        ("porto\ndescription: Olive trees", "porto\ndescription: Olive trees"),
    ] {
        let path =
            MemoryPath::parse("/memories/global/user/live-porto.md", Layout::Scoped).unwrap();
        let (written, trust) = (Written::Unknown, Trust::Person);
        let stored =
            Stored { path, text: memory(head, body).into(), pinned: false, written, trust };
        let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
        let query = "forget that I live in Porto".to_owned();
        let done = forget(&snapshot, &ForgetRequest { query, scope: None });
        let left = &after(&snapshot, &done.edits)["/memories/global/user/live-porto.md"];
        assert_eq!(*left, memory(expected, "- I keep bees.\n"), "{head}");
    }
}

#[test]
fn what_a_small_word_tells_apart_is_not_taken_along() {
    let path = MemoryPath::parse("/memories/global/user/lamp.md", Layout::Scoped).unwrap();
    let text = "- The lamp is on at night\n- The lamp is off by day\n";
    let (written, trust) = (Written::Unknown, Trust::Person);
    let stored = Stored { path, text: text.into(), pinned: false, written, trust };
    let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
    for (query, removed) in [("forget that the lamp is off", 1), ("forget the lamp", 2)] {
        let done = forget(&snapshot, &ForgetRequest { query: query.to_owned(), scope: None });
        assert_eq!(done.removed.len(), removed, "{query} {:?}", done.removed);
    }
}

#[test]
fn a_word_for_what_a_value_is_stands_for_the_value() {
    let path = MemoryPath::parse("/memories/project/project/a.md", Layout::Scoped).unwrap();
    let text = "- Deploys go out on Tuesdays\n- Invoices close at 17:30\n- The lamp needs 40 watts\n- Use tabs\n";
    let (written, trust) = (Written::Unknown, Trust::Person);
    let stored = Stored { path, text: text.into(), pinned: false, written, trust };
    let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
    for (query, removed) in [
        ("forget the day of the deploys", &["Deploys go out on Tuesdays"][..]),
        ("would you mind deleting the time the invoices close", &["Invoices close at 17:30"]),
        ("vergiss den Tag der Deploys", &["Deploys go out on Tuesdays"]),
        ("forget the day", &[]),
        ("forget use", &[]),
        ("forget the day of the lamp", &[]),
        ("forget the time of the deploys", &[]),
    ] {
        let done = forget(&snapshot, &ForgetRequest { query: query.to_owned(), scope: None });
        let gone: Vec<&str> = done.removed.iter().map(|entry| entry.summary.trim()).collect();
        assert_eq!(gone, removed, "{query}");
    }
}

#[test]
fn requests_are_understood_in_many_languages() {
    let path = MemoryPath::parse("/memories/global/user/a.md", Layout::Scoped).unwrap();
    for (entry, request, kept) in [
        ("Má rád zelený čaj", "zapomeň na zelený čaj", "nezapomeň na zelený čaj"),
        ("Drikker grønn te", "glem det om grønn te", "ikke glem grønn te"),
        ("Bea ceai verde", "uită ce am spus despre ceai verde", "nu uita de ceai verde"),
        ("Zöld tea a kedvence", "felejtsd el a zöld tea dolgot", "ne felejtsd el: zöld tea"),
        ("Juo vihreää teetä", "unohda vihreää teetä", "älä unohda vihreää teetä"),
        ("Minum teh hijau", "tolong lupakan soal teh hijau", "jangan lupakan teh hijau"),
        ("Uống trà xanh", "hãy quên chuyện trà xanh đi", "đừng quên trà xanh"),
        ("چای سبز می‌نوشد", "لطفا چای سبز را فراموش کن", "چای سبز را فراموش نکن"),
        ("Πίνει πράσινο τσάι", "ξέχασε το πράσινο τσάι", "μην ξεχάσεις το πράσινο τσάι"),
        ("שותה תה ירוק", "תשכח מה שאמרתי על תה ירוק", "אל תשכח תה ירוק"),
        ("हरी चाय पीता है", "हरी चाय वाली बात भूल जाओ", "हरी चाय मत भूलो"),
    ] {
        let text = format!("- {entry}\n- Plays the cello\n").into();
        let (written, trust) = (Written::Unknown, Trust::Person);
        let stored = Stored { path: path.clone(), text, pinned: false, written, trust };
        let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
        let gone = |query: &str| {
            let done = forget(&snapshot, &ForgetRequest { query: query.to_owned(), scope: None });
            done.removed.into_iter().map(|entry| entry.summary).collect::<Vec<_>>()
        };
        assert_eq!(gone(request), [entry], "{request}");
        assert_eq!(gone(kept), Vec::<String>::new(), "{kept}");
    }
}

#[test]
fn names_numbers_reasons_and_kinds_say_what_is_meant() {
    let at = |path: &str, text: &str| {
        let path = MemoryPath::parse(path, Layout::Scoped).unwrap();
        let (written, trust) = (Written::Unknown, Trust::Person);
        Stored { path, text: text.into(), pinned: false, written, trust }
    };
    let browser = "---\nname: browser\ndescription: Browser preference\n---\n\n- Uses Vivaldi\n";
    let memories = vec![
        at("/memories/global/user/browser.md", browser),
        at("/memories/global/user/me.md", "- Lives in Turku\n- Plays the cello\n"),
        at(
            "/memories/project/project/tiles.md",
            "- Tiles are named by cell\n- Branch tiles-z holds zstd\n",
        ),
        at(
            "/memories/project/project/render.md",
            "- The PC uses 4K textures\n- The Switch uses 1K textures\n",
        ),
        at("/memories/project/project/tests.md", "- Browser tests run in headless Firefox\n"),
        at("/memories/project/project/tr.md", "- Toplantılar salı günü yapılır\n"),
    ];
    let snapshot = of(memories, "2026-06-01T09:00:00Z".parse().unwrap());
    for (query, expected) in [
        ("forget my browser preference", &["Uses Vivaldi"][..]),
        ("tiles-z", &["Branch tiles-z holds zstd"]),
        (
            "please delete the two texture entries",
            &["The PC uses 4K textures", "The Switch uses 1K textures"],
        ),
        ("please delete the three texture entries", &[]),
        ("I have left Porto, so scrap where I live", &["Lives in Turku"]),
        ("toplantılarla ilgili notu sil", &["Toplantılar salı günü yapılır"]),
    ] {
        let done = forget(&snapshot, &ForgetRequest { query: query.to_owned(), scope: None });
        let mut gone: Vec<&str> = done.removed.iter().map(|entry| entry.summary.trim()).collect();
        gone.sort_unstable();
        assert_eq!(gone, expected, "{query}");
    }
}

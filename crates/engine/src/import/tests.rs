//! Tests of import plans for sources of each format, and for arbitrary files.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use insta::assert_snapshot;
use memory::document::{MEMORY_LIST_MARK, body, entries, parse_header};
use memory::limits::MEMORY_BYTES_MAX;
use proptest::prelude::*;

use super::*;

fn files(files: &[(&str, &str)]) -> Vec<SourceFile> {
    let file = |&(path, text): &(&str, &str)| SourceFile {
        path: path.to_owned(),
        bytes: text.as_bytes().to_vec(),
    };
    files.iter().map(file).collect()
}

/// Shows a plan: each memory with its source, notes and text, then what was skipped.
fn render_plan(plan: &ImportPlan) -> String {
    let mut shown = String::new();
    for PlannedMemory { path, text, source, notes } in &plan.memories {
        writeln!(shown, "== {path} < {source}").unwrap();
        for note in notes {
            writeln!(shown, "({note})").unwrap();
        }
        writeln!(shown, "{}", text.trim_end()).unwrap();
    }
    for SkippedSource { source, reason: why, is_loss: _ } in &plan.skipped {
        writeln!(shown, "-- {source} {why}").unwrap();
    }
    shown
}

fn plan_text(format: Format, sources: &[(&str, &str)]) -> String {
    render_plan(&plan(format, files(sources)))
}

#[test]
fn a_format_is_recognized_by_its_path() {
    let index = files(&[("MEMORY.md", "- [a](a.md)"), ("a.md", "a")]);
    for (from, expected) in [
        ("/home/user/.qwen/memories", Format::Qwen),
        ("memories", Format::Qwen),
        ("/home/user/.qwen/projects/p/memory", Format::Qwen),
        ("/home/user/.claude/projects/p/memory", Format::ClaudeCode),
        ("", Format::ClaudeCode),
    ] {
        assert_eq!(Format::detect(Path::new(from), &index), expected, "{from}");
        assert_eq!(Format::detect(Path::new(from), &files(&[("a.md", "a")])), Format::Folder);
    }
}

#[test]
fn a_format_is_recognized_by_its_files() {
    let check = |sources: &[(&str, &str)], expected: Format| {
        let detected = Format::detect(Path::new("/home/user/notes"), &files(sources));
        assert_eq!(detected, expected, "{sources:?}");
    };
    let entity = r#"{"type":"entity","name":"A","entityType":"b","observations":[]}"#;
    let list = format!("{MEMORY_LIST_MARK}\n- [a](a.md)\n");
    check(&[], Format::Folder);
    check(&[("a.md", "a"), ("b/c.txt", "d")], Format::Folder);
    check(&[("MEMORY.md", &list), ("a.md", "a")], Format::Folder);
    check(&[("MEMORY.md", "- [a](a.md)"), ("a.md", "a")], Format::ClaudeCode);
    check(&[("-home-ana-lukasa/memory/MEMORY.md", "# Memory")], Format::ClaudeCode);
    check(&[("memories/MEMORY.md", "- [a](a.md)")], Format::Qwen);
    check(
        &[("projects/p/memory/MEMORY.md", ""), ("projects/p/extract-cursor.json", "{}")],
        Format::Qwen,
    );
    check(&[("memory.jsonl", entity)], Format::ServerMemory);
    check(&[("memory.json", &format!("\n{entity}\nbroken"))], Format::ServerMemory);
    check(&[("memory.jsonl", entity), ("a.md", "a")], Format::Folder);
    check(&[("package.json", r#"{"type":"module"}"#)], Format::Folder);
}

#[test]
fn a_folder_keeps_paths_and_bytes() {
    let text = "\u{FEFF}---\r\nname: a\r\nx:   [1]  # c\r\n---\r\n\r\nbody";
    let plan = plan(Format::Folder, files(&[("b/Ünï (1).md", text), ("a.TXT", "a")]));
    let expected = |path: &str, text: &str| PlannedMemory {
        path: path.to_owned(),
        text: text.to_owned(),
        source: path.to_owned(),
        notes: Vec::new(),
    };
    assert_eq!(plan.memories, [expected("a.TXT", "a"), expected("b/Ünï (1).md", text)]);
    assert_eq!(plan.skipped, []);
}

#[test]
fn files_of_a_folder_that_cannot_be_imported_are_reported() {
    let mut sources = files(&[
        (".git/a.md", "a"),
        ("b/.c.md", "a"),
        ("d.png", "a"),
        ("e", "a"),
        ("f.md", " \n"),
        ("g.md", "a\0"),
        ("MEMORY.md", &format!("{MEMORY_LIST_MARK}\n")),
    ]);
    sources.push(SourceFile { path: "h.md".to_owned(), bytes: b"\xFFa".to_vec() });
    assert_snapshot!(render_plan(&plan(Format::Folder, sources)), @r"
    -- .git/a.md is hidden
    -- MEMORY.md is a listing that Lukasa writes by itself
    -- b/.c.md is hidden
    -- d.png is not Markdown
    -- e is not Markdown
    -- f.md is empty
    -- g.md holds NUL bytes, so it is not text
    -- h.md is not UTF-8 text
    ");
}

#[test]
fn invalid_names_are_changed_and_noted() {
    let check = |sources: &[&str], expected: &[&str]| {
        let sources: Vec<(&str, &str)> = sources.iter().map(|path| (*path, "text")).collect();
        let plan = plan(Format::Folder, files(&sources));
        let paths: Vec<&str> = plan.memories.iter().map(|planned| &*planned.path).collect();
        assert_eq!(paths, expected);
        for planned in &plan.memories {
            assert_eq!(planned.path != planned.source, !planned.notes.is_empty(), "{planned:?}");
        }
    };
    check(&["a: b?.md", "50% off.md", "c|d/e.md"], &["50- off.md", "a- b.md", "c-d/e.md"]);
    check(&["con.md", "a/NUL.txt", "com1.md"], &["a/_NUL.txt", "_com1.md", "_con.md"]);
    check(&["P/a.md", "p/A.md", "p/b.md"], &["P/a.md", "P/A-2.md", "P/b.md"]);
    check(&["a*.md", "a?.md", "a-.md"], &["a.md", "a-.md", "a-2.md"]);
    check(&["x?.md", "x*.md/y.md"], &["x.md/y.md", "x-2.md"]);
    check(&["x.md", "x?.md/y.md"], &["x.md", "x.md-y.md"]);
    check(&["memory.MD", "sub/MEMORY.md"], &["memory-notes.md", "sub/MEMORY.md"]);
    check(&["e\u{301}.md", "../~/a\\b.md", "./c.md"], &["unnamed/unnamed/a-b.md", "c.md", "é.md"]);
    check(
        &["a\u{202E}\u{200B}b.md", "日本 語.md", "???.md"],
        &["unnamed.md", "a-b.md", "日本 語.md"],
    );
}

#[test]
fn long_and_deep_paths_are_shortened() {
    let long = format!("{}é.markdown", "x".repeat(300));
    let deep = format!("{}file.md", "folder/".repeat(40));
    let wide = format!("{}file.md", format!("{}/", "y".repeat(170)).repeat(9));
    for path in [long, deep, wide] {
        let plan = plan(Format::Folder, files(&[(&path, "text")]));
        let [planned] = &plan.memories[..] else { panic!("{plan:?}") };
        assert!(planned.path.len() < 960 && planned.path.split('/').count() < 15, "{planned:?}");
        assert!(planned.path.split('/').all(|part| part.len() <= 60), "{planned:?}");
        assert_eq!(planned.path.rsplit_once('.').unwrap().1, path.rsplit_once('.').unwrap().1);
    }
}

#[test]
fn a_file_that_is_too_large_is_cut_between_entries() {
    let bullet = format!("- {}\n", "x".repeat(998));
    let bodies = ["# One\n\n", &bullet.repeat(100), "\n## Two\n\n", &bullet.repeat(60), "last"];
    let text = format!("---\nname: n\ndescription: d\n---\n{}", bodies.concat());
    let plan = plan(Format::Folder, files(&[("deep/log.md", &text)]));
    let shown: Vec<(&str, String, usize)> = plan
        .memories
        .iter()
        .map(|part| {
            let description = parse_header(part.text.as_bytes()).description;
            (&*part.path, description, entries(&part.text).len())
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("deep/log-1.md", "d".to_owned(), 100),
            ("deep/log-2.md", "d (part 2 of 2)".to_owned(), 60),
        ]
    );
    let together: String = plan.memories.iter().map(|part| body(&part.text)).collect();
    assert_eq!(together, body(&text));
    assert!(body(&plan.memories[1].text).starts_with("## Two\n"));
    assert_eq!(plan.memories[0].notes, ["cut into 2 memories"]);
    assert_eq!(plan.skipped, []);
}

#[test]
fn a_file_whose_one_entry_is_too_large_is_skipped() {
    let paragraph = "word ".repeat(MEMORY_BYTES_MAX / 5 + 1);
    let front = format!("---\nname: {paragraph}\n---\ntext");
    assert_snapshot!(plan_text(Format::Folder, &[("a.md", &paragraph), ("b.md", &front)]), @r"
    -- a.md holds one piece of 102405 bytes, more than the 102400 of a memory
    -- b.md holds one piece of 4 bytes, more than the 102400 of a memory
    ");
}

#[test]
fn broken_frontmatter_is_mended_and_noted() {
    assert_snapshot!(plan_text(Format::Folder, &[("a.md", "---\nname: a\ndescription: RULE: b\n---\nc")]), @r#"
    == a.md < a.md
    (values of the frontmatter were quoted so that it can be read)
    ---
    name: a
    description: "RULE: b"
    ---
    c
    "#);
}

#[test]
fn claude_code_topics_and_index_text_beyond_links_are_imported() {
    assert_snapshot!(plan_text(Format::ClaudeCode, &[
        ("MEMORY.md", "# Index\n\n- [Tests](tests.md) — how to test\n- **[Sub](./sub/b%20c.md)**: d\n\
            - [Gone](gone.md) — was here\n- Use bun, not npm\n\n## Facts\n\nPort 8080.\n"),
        ("tests.md", "---\nname: tests\ndescription: how\nmetadata:\n  type: feedback\n---\n\nNo mocks.\n\n**Why:** bugs.\n"),
        ("sub/b c.md", "Topic.\n"),
        ("sub/MEMORY.md", "[b](b c.md)\n"),
    ]), @r"
    == memory-notes.md < MEMORY.md
    # Index

    - [Gone](gone.md) — was here
    - Use bun, not npm

    ## Facts

    Port 8080.
    == sub/b c.md < sub/b c.md
    Topic.
    == tests.md < tests.md
    ---
    name: tests
    description: how
    metadata:
      type: feedback
    ---

    No mocks.

    **Why:** bugs.
    -- sub/MEMORY.md only lists the other files; Lukasa lists them itself
    ");
}

#[test]
fn projects_of_claude_code_stay_separate() {
    assert_snapshot!(plan_text(Format::ClaudeCode, &[
        ("-home-ana-a/memory/MEMORY.md", "- [x](x.md) — y\n"),
        ("-home-ana-a/memory/x.md", "x of a\n"),
        ("-home-ana-b/memory/MEMORY.md", "fact of b\n"),
        ("-home-ana-b/memory/x.md", "x of b\n"),
        ("-home-ana-b/session.jsonl", "{}"),
    ]), @r"
    == -home-ana-a/x.md < -home-ana-a/memory/x.md
    x of a
    == -home-ana-b/memory-notes.md < -home-ana-b/memory/MEMORY.md
    fact of b
    == -home-ana-b/x.md < -home-ana-b/memory/x.md
    x of b
    -- -home-ana-b/session.jsonl is not in a folder with a MEMORY.md
    -- -home-ana-a/memory/MEMORY.md only lists the other files; Lukasa lists them itself
    ");
}

#[test]
fn topics_of_claude_code_without_an_index_are_kept() {
    assert_snapshot!(plan_text(Format::ClaudeCode, &[("a.md", "a\n")]), @r"
    == a.md < a.md
    a
    ");
}

#[test]
fn bookkeeping_and_placeholders_of_qwen_are_skipped() {
    assert_snapshot!(plan_text(Format::Qwen, &[
        (".qwen/memories/MEMORY.md", "- [Ana](user/ana.md) — role\n\n> WARNING: MEMORY.md is too large; cut.\n"),
        (".qwen/memories/user/ana.md", "---\nname: Ana\ntype: user\n---\n\nIs a nurse.\n\nWhy: said so\n"),
        (".qwen/memories/feedback.md", "---\ntype: feedback\n---\n# Feedback\n\n_No entries yet._\n"),
        (".qwen/projects/p/memory/MEMORY.md", ""),
        (".qwen/projects/p/memory/project.md", "# Project Memory\n\n- Ships in May\n  - Why: fair\n"),
        (".qwen/projects/p/meta.json", "{}"),
        (".qwen/settings.json", "{}"),
    ]), @r"
    == memories/user/ana.md < .qwen/memories/user/ana.md
    ---
    name: Ana
    type: user
    ---

    Is a nurse.

    Why: said so
    == p/project.md < .qwen/projects/p/memory/project.md
    # Project Memory

    - Ships in May
      - Why: fair
    -- .qwen/projects/p/meta.json is bookkeeping of Qwen Code
    -- .qwen/memories/feedback.md holds no entries
    -- .qwen/projects/p/memory/MEMORY.md is empty
    -- .qwen/settings.json is not in a folder with a MEMORY.md
    -- .qwen/memories/MEMORY.md only lists the other files; Lukasa lists them itself
    ");
}

#[test]
fn a_graph_becomes_one_memory_per_entity() {
    let graph = r#"{"type":"entity","name":"Ana Pérez","entityType":"person","observations":["likes tea","line 1\n\n  line 2\n","---","  "]}
{"type":"entity","name":"Lukasa: core","entityType":"Code Base","observations":[]}

{"type":"relation","from":"Ana Pérez","to":"Lukasa: core","relationType":"works_on"}
{"type":"relation","from":"Ghost","to":"Ana Pérez","relationType":"haunts"}
{"type":"entity","name":"no observations"}
{"type":"event"}
not json
{"type":"entity","name":"ana pérez","entityType":"Person","observations":["namesake"]}
{"type":"entity","name":"Ana Pérez","entityType":"person","observations":["likes tea","is tall"]}"#;
    assert_snapshot!(plan_text(Format::ServerMemory, &[("memory.jsonl", graph), ("notes.bin", "x")]), @r##"
    == person/ana-pérez.md < memory.jsonl:1, memory.jsonl:10
    ---
    name: Ana Pérez
    description: "person: likes tea; line 1 line 2 ; ---; ; is tall"
    ---
    - likes tea
    - line 1

        line 2
    - \---
    - is tall
    - relates: Ana Pérez — works_on → Lukasa: core
    == code-base/lukasa-core.md < memory.jsonl:2
    ---
    name: "Lukasa: core"
    description: Code Base
    ---
    == person/ana-pérez-2.md < memory.jsonl:9
    (stored as `person/ana-pérez-2.md`, since the name could not be kept)
    ---
    name: ana pérez
    description: "Person: namesake"
    ---
    - namesake
    == relations.md < memory.jsonl
    ---
    name: Relations
    description: Relations of entities that were not in the imported graph.
    ---
    - relates: Ghost — haunts → Ana Pérez
    -- memory.jsonl:6 is neither an entity nor a relation
    -- memory.jsonl:7 is neither an entity nor a relation
    -- memory.jsonl:8 is damaged: it is not JSON
    -- notes.bin is not a graph
    "##);
}

#[test]
fn a_graph_is_read_in_every_form_that_people_have() {
    let ana =
        r#"{"type":"entity","name":"Ana","entityType":"person","observations":["likes tea"]}"#;
    let knows = r#"{"type":"relation","from":"Ana","to":"Bo","relationType":"knows"}"#;
    let (bare_ana, bare_knows) = (
        r#"{"name":"Ana","entityType":"person","observations":["likes tea"]}"#,
        r#"{"from":"Ana","to":"Bo","relationType":"knows"}"#,
    );
    let pretty = |value: &str| {
        let value: serde_json::Value = serde_json::from_str(value).unwrap();
        serde_json::to_string_pretty(&value).unwrap()
    };
    let array = format!("[{ana},{knows}]");
    let graph = format!("{{\"entities\":[{bare_ana}],\"relations\":[{bare_knows}]}}");
    let expected =
        plan_text(Format::ServerMemory, &[("memory.jsonl", &format!("{ana}\n{knows}\n"))]);
    assert!(expected.contains("- relates: Ana — knows → Bo"), "{expected}");
    let body = |shown: &str| shown.split_once('\n').unwrap().1.to_owned();
    for text in [
        format!("{ana}{knows}"),
        format!("\u{FEFF}{ana}\r\n{knows}\r\n{ana}"),
        pretty(&array),
        pretty(&graph),
        format!("{bare_ana}\n{bare_knows}"),
        format!("{}\n{}", pretty(ana), pretty(knows)),
        array,
        graph,
    ] {
        assert_eq!(
            Format::detect(Path::new("x"), &files(&[("memory.json", &text)])),
            Format::ServerMemory
        );
        let shown = plan_text(Format::ServerMemory, &[("memory.json", &text)]);
        assert_eq!(body(&shown), body(&expected), "{text}");
    }
}

#[test]
fn fields_of_forks_of_the_server_are_imported() {
    let graph = r#"{"type":"entity","name":"Ana","entityType":"person","observations":[{"text":"likes tea"}],"created":"2026-01-02","tags":["x"],"note":"","id":null}
{"type":"relation","from":"Ana","to":"Bo","relationType":"knows","since":2020}"#;
    let shown = plan_text(Format::ServerMemory, &[("memory.jsonl", graph)]);
    for line in [
        r#"- {"text":"likes tea"}"#,
        "- created: 2026-01-02",
        r#"- tags: ["x"]"#,
        "- relates: Ana — knows → Bo (since: 2020)",
    ] {
        assert!(shown.contains(line), "{line} is missing:\n{shown}");
    }
    assert!(!shown.contains("note:") && !shown.contains("id:"), "{shown}");
}

#[test]
fn a_damaged_graph_is_imported_and_the_damage_reported() {
    let entity = |name: &str| {
        format!(
            "{{\"type\":\"entity\",\"name\":\"{name}\",\"entityType\":\"p\",\"observations\":[\"o\"]}}"
        )
    };
    let cut = |name: &str, bytes: usize| entity(name).chars().take(bytes).collect::<String>();
    let [a, b, c] = ["a", "b", "c"].map(entity);
    for (text, damage) in [
        // The next object starts where the previous one was cut.
        (format!("{a}\n{}{b}\n{c}\n", cut("x", 40)), "memory.jsonl:2"),
        (format!("{a}\n{}{b}\n{c}\n", cut("x", 65)), "memory.jsonl:2"),
        (format!("{a}\n{}\n{b}{c}\n", cut("x", 50)), "memory.jsonl:2"),
        (format!("{a}\n{b}\n{c}\n{}", cut("x", 64)), "memory.jsonl:4"),
        (format!("{a}\n\0\0\0\n\0\n{b}\n{c}\n"), "memory.jsonl:2-3"),
        // An array without its end.
        (format!("[\n{a},\n{b},\n{c},\n{}", cut("x", 60)), "memory.jsonl:5"),
    ] {
        let plan = plan(Format::ServerMemory, files(&[("memory.jsonl", &text)]));
        let paths: Vec<_> = plan.memories.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["p/a.md", "p/b.md", "p/c.md"], "{text:?}");
        let [skipped] = &plan.skipped[..] else { panic!("{text:?}: {:?}", plan.skipped) };
        assert_eq!((skipped.source.as_str(), skipped.is_loss), (damage, true), "{text:?}");
    }
}

/// The grammar of memory paths, written down a second time and simply.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= 255
            && !part.contains("..")
            && !part.starts_with('.')
            && !part.ends_with(['.', ' '])
            && !part.contains(|c: char| c.is_control() || "~\\<>\":|*?%".contains(c))
            && !part.contains(['\u{200B}', '\u{202E}', '\u{2028}', '\u{FEFF}', '\u{E0041}'])
            && !["con", "nul", "com1"].contains(&&*part.split('.').next().unwrap().to_lowercase())
    };
    path.len() <= 1_000 && path.split('/').count() <= 15 && path.split('/').all(is_part)
}

fn any_files() -> impl Strategy<Value = Vec<SourceFile>> {
    let names = prop::sample::select(vec![
        "a", "A", "con", "MEMORY", ".", "..", "é", "e\u{301}", "\u{202E}", "%2e", "?", "x y", "",
        "memory", "~",
    ]);
    let ends = prop::sample::select(vec![".md", ".MD", ".txt", ".jsonl", "", ".md/"]);
    let path = prop_oneof![
        prop::collection::vec((names, ends), 1..5).prop_map(|parts| {
            let parts: Vec<String> =
                parts.iter().map(|(name, end)| format!("{name}{end}")).collect();
            parts.join("/")
        }),
        any::<String>(),
        any::<String>().prop_map(|name| format!("{name}.md")),
    ];
    let lines = prop::sample::select(vec![
        "- [a](a.md) — b\n",
        "- fact\n",
        "# H\n",
        "---\n",
        "name: a\n",
        "description: a: b\n",
        "\n",
        "_No entries yet._\n",
        "{\"type\":\"entity\",\"name\":\"a\",\"entityType\":\"..\",\"observations\":[\"- x\\n# y\\n```\"]}\n",
        "{\"type\":\"relation\",\"from\":\"a\",\"to\":\"\",\"relationType\":\"\\u0000\"}\n",
        "{}\n",
    ]);
    let bytes = prop_oneof![
        prop::collection::vec(lines, 0..8).prop_map(|lines| lines.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..60),
    ];
    prop::collection::vec((path, bytes), 0..8).prop_map(|files| {
        files.into_iter().map(|(path, bytes)| SourceFile { path, bytes }).collect()
    })
}

fn any_observations() -> impl Strategy<Value = Vec<String>> {
    let pieces = prop::sample::select(vec![
        "word", "\n", "\r\n", "\r", " ", "    ", "\t", "- ", "1. ", "# ", "> ", "---", "***",
        "===", "```", "~~~", "[a]: b", "<!-- ", "<div>", "|", "\\", "\0", "Why: ", "\u{2028}",
    ]);
    let text = prop_oneof![
        prop::collection::vec(pieces, 1..9).prop_map(|pieces| pieces.concat()),
        any::<String>(),
    ];
    prop::collection::vec(text, 1..5)
}

proptest! {
    #[test]
    fn any_files_are_planned_or_reported(files in any_files()) {
        for format in [Format::Folder, Format::ClaudeCode, Format::Qwen, Format::ServerMemory] {
            let plan = plan(format, files.clone());
            let mut seen = HashSet::new();
            for planned in &plan.memories {
                prop_assert!(is_path(&planned.path), "{:?}", planned);
                prop_assert!(seen.insert(planned.path.to_lowercase()), "{:?}", planned);
                prop_assert!(planned.text.len() <= MEMORY_BYTES_MAX);
                prop_assert!(!planned.path.eq_ignore_ascii_case("MEMORY.md"));
            }
            for path in &seen {
                let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
                prop_assert!(!folders.into_iter().any(|folder| seen.contains(folder)), "{}", path);
            }
            if format == Format::ServerMemory {
                continue; // a relation is in the memory that it starts at
            }
            let sources = plan.memories.iter().map(|planned| &*planned.source);
            let sources: Vec<&str> = sources.chain(plan.skipped.iter().map(|skipped| &*skipped.source)).collect();
            for file in files.iter().filter(|file| !file.bytes.trim_ascii().is_empty()) {
                prop_assert!(sources.iter().any(|source| source.contains(&file.path)), "{:?}", file);
            }
        }
    }

    #[test]
    fn a_plan_does_not_depend_on_the_order_of_the_files(files in any_files()) {
        let mut paths = HashSet::new();
        let mut files = files;
        files.retain(|file| paths.insert(file.path.clone()));
        let mut reversed = files.clone();
        reversed.reverse();
        prop_assert_eq!(plan(Format::Folder, files), plan(Format::Folder, reversed));
    }

    #[test]
    fn an_observation_is_one_entry_whatever_it_holds(observations in any_observations()) {
        let line = serde_json::json!({
            "type": "entity", "name": "a", "entityType": "b", "observations": observations,
        });
        let plan = plan(Format::ServerMemory, files(&[("m.jsonl", &line.to_string())]));
        let said = observations.iter().filter(|text| !text.trim().is_empty()).count();
        prop_assert_eq!(entries(&plan.memories[0].text).len(), said, "{:?}", plan);
    }
}

//! The grammar of paths, with tables, and its invariants for random texts.

use proptest::prelude::*;

use super::*;

/// Parses in the scoped layout and shows the path or the refusal.
fn scoped(text: &str) -> String {
    show(MemoryPath::parse(text, Layout::Scoped))
}

fn flat(text: &str) -> String {
    show(MemoryPath::parse(text, Layout::Flat))
}

fn show(parsed: Result<MemoryPath, PathError>) -> String {
    parsed.map_or_else(|refusal| refusal.to_string(), |path| path.to_string())
}

fn accepts(text: &str) {
    assert_eq!(scoped(text), text);
}

/// Expects the refusal of a segment below the global root, for this reason.
fn refuses(segment: &str, reason: &str) {
    let path = format!("/memories/global/{segment}/x.md");
    assert_eq!(scoped(&path), format!("Invalid memory path {path}: {reason}"));
}

fn escapes(path: &str) {
    assert_eq!(scoped(path), format!("Path {path} would escape /memories directory"));
}

fn relative(text: &str) -> RelativePath {
    RelativePath::parse(text).unwrap()
}

#[test]
fn a_path_is_the_top_a_root_or_inside_a_root() {
    let parse = |text, layout| MemoryPath::parse(text, layout).unwrap();
    let global = Mount::Scope(Scope::Global);
    assert_eq!(parse("/memories", Layout::Scoped), MemoryPath::Top);
    assert_eq!(parse("/memories/", Layout::Scoped), MemoryPath::Top);
    assert_eq!(parse("/memories", Layout::Flat), MemoryPath::Root(Mount::Flat));
    assert_eq!(parse("/memories/global", Layout::Scoped), MemoryPath::Root(global));
    assert_eq!(
        parse("/memories/global/a/b.md", Layout::Scoped),
        MemoryPath::Inside(global, relative("a/b.md"))
    );
    assert_eq!(
        parse("/memories/global/b.md", Layout::Flat),
        MemoryPath::Inside(Mount::Flat, relative("global/b.md"))
    );
    assert_eq!(flat("/memories/a.md"), "/memories/a.md");
}

#[test]
fn surrounding_white_space_and_one_trailing_slash_are_dropped() {
    for text in [" /memories/project/a.md\n", "\t/memories/project/a.md", "/memories/project/a.md/"]
    {
        assert_eq!(scoped(text), "/memories/project/a.md", "{text:?}");
    }
    let twice = "/memories/project/a//";
    assert_eq!(scoped(twice), format!("Invalid memory path {twice}: it has an empty segment"));
    assert_eq!(scoped("/memories//"), "Invalid memory path /memories//: it has an empty segment");
}

#[test]
fn ordinary_names_pass() {
    for name in [
        "a.md",
        "a b.md",
        " a",
        "a-b_c+d,e;f=g.md",
        "100%.md",
        "50%25.md",
        "%zz",
        "%7e",
        "(1)[2]{3}",
        "über.md",
        "メモ.md",
        "заметки",
        "❤\u{fe0f}.md",
        "x.con",
        "console.md",
        "com10",
        "com",
        "nul1",
        "lpt0",
        "a'b&c!@#$^`.md",
        "MEMORY.md",
        "．．",
    ] {
        accepts(&format!("/memories/workspace/{name}"));
    }
}

#[test]
fn a_path_must_begin_with_memories() {
    for text in [
        "",
        "/",
        "global/foo.md",
        "memories/global/a",
        "/memoriesx/a",
        "/Memories/global/a",
        "/etc/passwd",
        "../memories/global/a",
        "C:\\memories",
        "//memories/global/a",
        "\\memories",
        "/%6demories/global",
        "file:///memories/global/a",
    ] {
        assert_eq!(scoped(text), format!("Path must start with /memories, got: {text}"));
    }
}

#[test]
fn every_form_of_traversal_is_an_escape() {
    for segment in [
        "..",
        "...",
        "a..b",
        "..a",
        "~",
        "~root",
        "a~1.md",
        "a\\b.md",
        "..\\..",
        "\\\\host",
        "%2e",
        "%2E%2e",
        "%252e",
        "%25252E",
        "%%32e",
        "%25%32%65",
        "a%2fb.md",
        "a%2Fb",
        "%5c",
        "%5C",
        "%255c",
        "%c0%ae",
        "%C1%9c",
        "x%2e%2e",
    ] {
        escapes(&format!("/memories/global/{segment}/foo.md"));
    }
    escapes("/memories/..");
    escapes("/memories/../memories/global/a.md");
    escapes("/memories/global/../../escape.md");
    escapes("/memories/other/../global/a.md");
    escapes("/memories/global/a/..");
}

#[test]
fn an_unknown_scope_is_refused_with_the_three_scopes() {
    for text in ["/memories/other/foo.md", "/memories/Global/a.md", "/memories/foo.md"] {
        assert_eq!(
            scoped(text),
            format!(
                "Invalid memory path {text}: the first folder must be one of the scopes \
                 /memories/global, /memories/project, /memories/workspace"
            )
        );
    }
}

#[test]
fn names_that_some_system_treats_specially_are_refused() {
    for name in [
        "con",
        "CON",
        "Nul",
        "aux.md",
        "prn.tar.gz",
        "com1",
        "COM9.txt",
        "com¹",
        "LPT³.md",
        "nul .txt",
        "conin$",
        "CONOUT$",
    ] {
        refuses(name, "a segment must not be a device name of Windows");
    }
    for name in [".hidden", ".", ".git"] {
        refuses(name, "a segment must not start with a dot");
    }
    for name in ["a.", "a ", "a\u{a0}", "a\u{3000}"] {
        refuses(name, "a segment must not end with a dot or a space");
    }
    refuses("", "it has an empty segment");
    for (name, reserved) in [
        ("a<b", "'<'"),
        ("a>b", "'>'"),
        ("a\"b", "'\"'"),
        ("a:b", "':'"),
        ("a|b", "'|'"),
        ("a*b", "'*'"),
        ("a?b", "'?'"),
    ] {
        refuses(name, &format!("it must not contain {reserved}"));
    }
}

#[test]
fn a_refusal_spells_out_invisible_characters() {
    for character in [
        '\0',
        '\u{1}',
        '\t',
        '\n',
        '\u{1b}',
        '\u{7f}',
        '\u{85}',
        '\u{9f}',
        '\u{ad}',
        '\u{61c}',
        '\u{180e}',
        '\u{200b}',
        '\u{200d}',
        '\u{202e}',
        '\u{2028}',
        '\u{2029}',
        '\u{2060}',
        '\u{2066}',
        '\u{feff}',
        '\u{e0041}',
        '\u{e0101}',
    ] {
        let code = u32::from(character);
        assert_eq!(
            scoped(&format!("/memories/global/a{character}b.md")),
            format!(
                "Invalid memory path /memories/global/a\\u{{{code:x}}}b.md: it contains the \
                 invisible character U+{code:04X}"
            )
        );
    }
    assert_eq!(scoped("x\u{202e}y"), "Path must start with /memories, got: x\\u{202e}y");
}

#[test]
fn a_refusal_repeats_only_the_beginning_of_a_long_text() {
    let text = "é".repeat(PATH_SHOWN_CHARS_MAX + 1);
    let shown = "é".repeat(PATH_SHOWN_CHARS_MAX);
    assert_eq!(scoped(&text), format!("Path must start with /memories, got: {shown}…"));
}

#[test]
fn a_path_may_be_as_long_as_its_limits_but_no_longer() {
    let name = "n".repeat(SEGMENT_BYTES_MAX);
    accepts(&format!("/memories/global/{name}"));
    for long in [format!("{name}n"), "é".repeat(128)] {
        let refusal = scoped(&format!("/memories/global/{long}/a.md"));
        assert!(refusal.ends_with("a segment must not be longer than 255 bytes"), "{refusal}");
    }

    let mut path = format!("/memories/global/{name}/{name}/{name}/");
    path.push_str(&"n".repeat(PATH_BYTES_MAX - path.len()));
    assert_eq!(path.len(), PATH_BYTES_MAX);
    accepts(&path);
    assert_eq!(scoped(&format!("{path}/")), path);
    assert!(scoped(&format!("{path}n")).ends_with("it must not be longer than 1024 bytes"));
    let huge = format!("/memories/global{}", "/n".repeat(1 << 20));
    assert!(scoped(&huge).ends_with("it must not be longer than 1024 bytes"));

    accepts(&format!("/memories/project{}", "/a".repeat(15)));
    assert!(
        scoped(&format!("/memories/project{}", "/a".repeat(16)))
            .ends_with("it must not have more than 16 segments")
    );
    let deep = format!("/memories{}", "/a".repeat(16));
    assert_eq!(flat(&deep), deep);
    assert!(flat(&format!("{deep}/a")).ends_with("it must not have more than 16 segments"));
}

#[test]
fn a_path_is_brought_into_nfc() {
    assert_eq!(scoped("/memories/global/cafe\u{301}.md"), "/memories/global/caf\u{e9}.md");
    assert_eq!(scoped("/memories/global/a\u{37e}b.md"), "/memories/global/a;b.md");
    assert_eq!(scoped("/memories/global/\u{212a}.md"), "/memories/global/K.md");
}

#[test]
fn a_name_on_disk_must_be_addressable_unchanged() {
    let check = |text: &str, fault| {
        assert_eq!(RelativePath::parse(text), Err(PathError::invalid(text, fault)), "{text:?}");
    };
    check("cafe\u{301}.md", PathErrorKind::NotNormalized);
    check("", PathErrorKind::EmptySegment);
    check("/a", PathErrorKind::EmptySegment);
    check("a/", PathErrorKind::EmptySegment);
    check("a//b", PathErrorKind::EmptySegment);
    check(" a ", PathErrorKind::BadEnd);
    check(".lukasa", PathErrorKind::Hidden);
    check("a\nb", PathErrorKind::InvisibleCharacter('\n'));
    check(&"a/".repeat(600), PathErrorKind::TooLong);
    check(&format!("a{}", "/a".repeat(16)), PathErrorKind::TooDeep);
    assert_eq!(relative(" a/b.md").as_str(), " a/b.md");
}

#[test]
fn a_relative_path_returns_its_parts() {
    let path = relative("notes/deep/a.md");
    assert_eq!(path.segments().collect::<Vec<_>>(), ["notes", "deep", "a.md"]);
    assert_eq!((path.file_name(), path.depth()), ("a.md", 3));
    assert_eq!(path.parent(), Some(relative("notes/deep")));
    assert_eq!((relative("a.md").file_name(), relative("a.md").parent()), ("a.md", None));
    assert_eq!(relative("notes").child("b.md"), Ok(relative("notes/b.md")));
    for bad in ["", "..", "x/y", "/x", "cafe\u{301}"] {
        assert!(relative("notes").child(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn folders_are_compared_by_segments() {
    let check = |path: &str, folder: &str, moved: Option<&str>| {
        let (path, folder, to) = (relative(path), relative(folder), relative("new/home"));
        assert_eq!(path.is_within(&folder), moved.is_some());
        assert_eq!(path.rebase(&folder, &to), moved.map(relative));
    };
    check("notes/a.md", "notes", Some("new/home/a.md"));
    check("notes/deep/b.md", "notes", Some("new/home/deep/b.md"));
    check("notes", "notes", Some("new/home"));
    check("notes2/a.md", "notes", None);
    check("notes.md", "notes", None);
    check("a/notes/b", "notes", None);
    check("notes", "notes/a.md", None);
    let deep = relative(&format!("notes{}", "/a".repeat(15)));
    assert_eq!(deep.rebase(&relative("notes"), &relative("new/home")), None);
}

#[test]
fn a_path_is_within_its_folders_its_root_and_the_top() {
    let check = |path: &str, folder: &str, expected: bool| {
        let parse = |text: &str| MemoryPath::parse(text, Layout::Scoped).unwrap();
        assert_eq!(parse(path).is_within(&parse(folder)), expected, "{path} in {folder}");
    };
    for folder in ["/memories", "/memories/global", "/memories/global/notes"] {
        check("/memories/global/notes/a.md", folder, true);
        check(folder, folder, true);
    }
    check("/memories/global/notes/a.md", "/memories/project", false);
    check("/memories/global/notes/a.md", "/memories/project/notes", false);
    check("/memories/global/notes2/a.md", "/memories/global/notes", false);
    check("/memories/global", "/memories/global/notes", false);
    check("/memories", "/memories/global", false);
}

#[test]
fn listings_are_in_byte_order() {
    let mut paths = ["a/x.md", "a.md", "a-b.md", "b", "B"].map(relative);
    paths.sort();
    assert_eq!(paths, ["B", "a-b.md", "a.md", "a/x.md", "b"].map(relative));
}

#[test]
fn paths_that_differ_only_in_case_fold_to_one() {
    let check = |one: &str, other: &str| {
        assert_eq!(relative(one).case_folded(), relative(other).case_folded());
    };
    check("Notes/A.MD", "notes/a.md");
    check("ÜBER.md", "über.md");
    check("ΟΔΟΣ", "οδος");
    check("οδοσ", "οδος");
    check("ПРИВЕТ", "привет");
    assert_ne!(relative("a-b").case_folded(), relative("a_b").case_folded());
}

#[test]
fn a_folder_joins_only_valid_names() {
    let check = |folder: &str, name: &str, expected: &str| {
        let folder = MemoryPath::parse(folder, Layout::Scoped).unwrap();
        assert_eq!(show(folder.join(name)), expected);
    };
    check("/memories", "global", "/memories/global");
    check("/memories/global", "a.md", "/memories/global/a.md");
    check("/memories/global/a", "b.md", "/memories/global/a/b.md");
    check(
        "/memories",
        "other",
        "Invalid memory path /memories/other: the first folder must be one of the scopes \
         /memories/global, /memories/project, /memories/workspace",
    );
    check(
        "/memories/global",
        "../x",
        "Path /memories/global/../x would escape /memories directory",
    );
    let deep = relative(&format!("a{}", "/a".repeat(15)));
    assert!(MemoryPath::inside(Mount::Flat, deep.clone()).is_ok());
    assert!(MemoryPath::inside(Mount::Scope(Scope::Global), deep).is_err());
}

/// Texts close to the grammar: a likely prefix, then segments of ordinary and hostile pieces.
fn near_paths() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("/".to_owned()),
        Just("..".to_owned()),
        Just("%2e".to_owned()),
        Just("%25".to_owned()),
        Just("con".to_owned()),
        Just("\u{301}".to_owned()),
        Just("<\u{338}".to_owned()),
        Just("\u{37e}".to_owned()),
        Just(" ".to_owned()),
        "[a-zA-Z0-9.~-]{1,4}",
        any::<char>().prop_map(String::from),
    ];
    let start =
        prop_oneof![Just("/memories/global/"), Just("/memories/"), Just("/memories"), Just("")];
    (start, prop::collection::vec(piece, 0..12))
        .prop_map(|(start, pieces)| format!("{start}{}", pieces.concat()))
}

fn check_invariants(text: &str, layout: Layout) {
    match MemoryPath::parse(text, layout) {
        Ok(path) => {
            let normal = path.to_string();
            assert_eq!(MemoryPath::parse(&normal, layout), Ok(path.clone()));
            assert!(normal.len() <= PATH_BYTES_MAX);
            assert!(!normal.contains("..") && !normal.contains("//") && !normal.contains("/."));
            assert!(!normal.contains(['\\', '~', '<', '>', '"', ':', '|', '*', '?']));
            assert!(!normal.contains(char::is_control));
            if let Some(relative) = path.relative() {
                assert_eq!(RelativePath::parse(relative.as_str()).as_ref(), Ok(relative));
            }
        }
        Err(refusal) => {
            let message = refusal.to_string();
            assert!(!message.contains(segment::is_invisible), "{message:?}");
            assert!(message.chars().count() < 12 * PATH_SHOWN_CHARS_MAX);
        }
    }
}

proptest! {
    #[test]
    fn a_parsed_path_is_safe_and_parses_to_itself(text in near_paths()) {
        check_invariants(&text, Layout::Scoped);
        check_invariants(&text, Layout::Flat);
    }

    #[test]
    fn any_text_is_a_path_or_a_refusal(text in any::<String>()) {
        check_invariants(&text, Layout::Scoped);
        check_invariants(&format!("/memories/global/{text}"), Layout::Scoped);
    }
}

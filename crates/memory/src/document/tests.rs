//! Tests of metadata, fields, entries and the listing, with tables and with random texts.

use proptest::prelude::*;

use super::*;
use crate::limits::DESCRIPTION_CHARS_MAX;

mod heads {
    use super::*;

    #[track_caller]
    fn check(file: &str, expected: &str) {
        let head = parse_header(file.as_bytes());
        let shown = [
            head.name.map(|name| format!("name={name}")),
            (!head.description.is_empty()).then(|| format!("description={}", head.description)),
            head.lenient_parse_reason.map(|why| format!("leniently={why}")),
            head.kind.map(|kind| format!("type={kind}")),
            head.malformed.map(|why| format!("malformed={why}")),
        ];
        let shown: Vec<String> = shown.into_iter().flatten().collect();
        assert_eq!(shown.join(" | "), expected, "{file:?}");
    }

    #[test]
    fn fields_are_read_from_a_block_at_the_first_byte() {
        check(
            "---\nname: a\ndescription: b\ntype: user\n---\nbody",
            "name=a | description=b | type=user",
        );
        check("---\r\nname: a\r\ndescription: b\r\n---\r\nbody", "name=a | description=b");
        check("\u{FEFF}---\nname: a\n---\n", "name=a");
        check("---  \nname: a\n...\nbody", "name=a");
        check("---\nname: a\n---", "name=a");
        check("---\n# nothing\n\n---\nbody", "");
        check("---\n---\nbody", "");
        check("\n---\nname: a\n---\n", "");
        check(" ---\nname: a\n---\n", "");
        check("----\nname: a\n---\n", "");
        check("# Title\n\n---\nname: a\n---\n", "");
        check("", "");
    }

    #[test]
    fn a_folded_description_becomes_one_line() {
        check("---\ndescription: >\n  first\n  second\n---\n", "description=first second");
        check("---\ndescription: first\n  second\n---\n", "description=first second");
        check("---\ndescription: |\n  a\n\n  b\n---\n", "description=a b");
        check("---\ndescription: \"a\\n\\tb\\u200b\\u0007\"\n---\n", "description=a b");
    }

    #[test]
    fn scalars_of_other_types_have_their_text_and_others_none() {
        check("---\nname: 1.10\ndescription: yes\n---\n", "name=1.10 | description=yes");
        check(
            "---\nname: 2026-11-05\ndescription: -0x1F\n---\n",
            "name=2026-11-05 | description=-0x1F",
        );
        check("---\nname: [a, b]\ndescription:\n- a\n- b\ntype: {a: b}\n---\n", "");
        check("---\nname:\ndescription: ~\ntype: ''\n---\n", "");
        check("---\nname: !tag a\ndescription: !!binary aGk=\n---\n", "name=a | description=aGk=");
        check("---\nname: &a x\ndescription: *a\n---\n", "name=x | description=x");
        check("---\nname: &a !!str 1\n*a : b\ntype: !!null x\n---\n", "name=1");
        check("---\n1: a\ntrue: b\nname: c\n---\n", "name=c");
    }

    #[test]
    fn the_last_of_two_fields_wins() {
        check("---\nname: a\nname: b\n---\n", "name=b");
    }

    #[test]
    fn a_type_below_metadata_counts_unless_there_is_one() {
        check("---\nname: a\nmetadata:\n  type: feedback\n---\n", "name=a | type=feedback");
        check("---\ntype: user\nmetadata:\n  type: feedback\n---\n", "type=user");
        check("---\nold: &m {type: 1.10}\nmetadata: *m\n---\n", "type=1.10");
        check("---\nmetadata: feedback\n---\n", "");
    }

    #[test]
    fn broken_frontmatter_is_reported_with_its_line() {
        check("---\nname: [a\n---\n", "malformed=frontmatter is not valid YAML at line 2");
        check("---\nname: *missing\n---\n", "malformed=frontmatter is not valid YAML at line 2");
        check(
            "---\nname: a\n? [b]\n: c\n---\n",
            "malformed=frontmatter is not valid YAML at line 3",
        );
        check("---\nname: a\n~: c\n---\n", "malformed=frontmatter is not valid YAML at line 3");
        check("---\nname: a\n--- b\n---\n", "malformed=frontmatter is not valid YAML at line 3");
        check("---\nname: a\n\nbody", "malformed=frontmatter has no closing `---` line");
        check("---\n\nJust prose under a thematic break.", "");
        check(
            "---\nprose: between\nbreaks: two: colons\n---\n",
            "leniently=frontmatter is not valid YAML at line 3",
        );
        check("---\nJust prose between breaks: two: colons\n---\n", "");
        check("---\n- a\n- b\n---\n", "");
    }

    #[test]
    fn invalid_frontmatter_still_has_a_title_for_display() {
        let check = |file: &str, expected: &str| {
            assert_eq!(display_title(file), expected, "{file:?}");
            assert_eq!(parse_header(file.as_bytes()).name, None, "only for display");
        };
        check("---\nname: Rye [a\ntags: [b\n---\n- x\n", "Rye [a");
        check("---\nname: \"Rye\ntags: [b\n---\n- x\n", "Rye");
        check("---\nname:\ndescription: 'Rye': [b\n---\n- x\n", "Rye': [b");
        check("---\ntags: [b\n---\n\n# Bread\n\n- x\n", "Bread");
        check("---\nname: [a\n\n- x\n", "[a");
        check("---\ndescription: Rye\n---\n- x\n", "Rye");
        check("---\ntype: user\n---\n# Bread\n", "Bread");
        check("- a fact is no title\n# Bread\n", "");
        check("", "");
    }

    #[test]
    fn the_frontmatter_may_hold_a_date() {
        let check = |front: &str, expected: Option<&str>| {
            let file = format!("---\n{front}\n---\n- x\ndate: 2031-01-01\n");
            assert_eq!(
                written_date(&file).map(|at| at.to_string()).as_deref(),
                expected,
                "{front}"
            );
        };
        check("date: 2031-04-05", Some("2031-04-05T00:00:00Z"));
        check("name: x\ndate: \"2031-04-05T10:00:00+02:00\"", Some("2031-04-05T00:00:00Z"));
        check("date: 2031-04-31", None);
        check("date: yesterday", None);
        check("name: x", None);
        check("tags: [a\ndate: 2031-04-05", Some("2031-04-05T00:00:00Z"));
    }

    #[test]
    fn an_invalid_value_that_can_only_be_text_is_read_as_text() {
        let check = |value: &str, expected: &str| {
            let file = format!("---\nname: a\ndescription: {value}\ntype: user\n---\n");
            let leniently = "leniently=frontmatter is not valid YAML at line 3";
            check(&file, &format!("name=a | description={expected} | {leniently} | type=user"));
        };
        check("build: use make", "build: use make");
        check("build: use make: or ninja", "build: use make: or ninja");
        check("see below:", "see below:");
        check("`make` builds", "`make` builds");
        check("@team decides", "@team decides");
        check("say \"hi\": loud", "say \"hi\": loud");
        check("Bauen: mit Überlegung", "Bauen: mit Überlegung");
    }

    #[test]
    fn an_invalid_value_that_may_be_more_than_text_is_not_guessed() {
        for value in
            ["[a: b", "'a: b", "\"a\": b", "*a: b", "&a b: c", "!t a: b: c", "- a: b", "{a: b"]
        {
            let head =
                parse_header(format!("---\nname: a\ndescription: {value}\n---\nb").as_bytes());
            assert!(head.malformed.is_some() && head.name.is_none(), "{value}: {head:?}");
            assert_eq!((head.shown_description(), head.lenient_parse_reason.as_ref()), ("", None));
        }
        // Nested values and values of several lines are not guessed either.
        for yaml in ["metadata:\n  type: a: b\n", "description: a: b\n  more: c\n"] {
            assert!(
                parse_header(format!("---\n{yaml}---\n").as_bytes()).malformed.is_some(),
                "{yaml}"
            );
        }
    }

    #[test]
    fn the_first_heading_or_line_replaces_a_missing_description() {
        let check = |file: &str, expected: &str| {
            assert_eq!(parse_header(file.as_bytes()).shown_description(), expected, "{file:?}");
        };
        check("# Build  system #\n\nUse make.\n", "Build system");
        check("---\nname: a\n---\n\n## Build\n", "Build");
        check("---\r\nname: a\r\n---\r\n\r\nUse `make`.\r\n", "Use `make`.");
        check("- Prefers *short* answers.\n- Likes tea.\n", "Prefers *short* answers.");
        check("> - [x] 1) done\n", "1) done");
        check("- [ ] buy milk\n", "buy milk");
        check("12. twelfth\n", "twelfth");
        check("1.5 litres\n", "1.5 litres");
        check("#hashtag\n", "#hashtag");
        check("# \n---\n***\n<!-- note\n goes on -->\n```sh\nmake\n```\n", "make");
        check("| a | b |\n|---|---|\n\nBelow the table\n", "Below the table");
        check("<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> main\n", "ours");
        check("---\nname: a\n---\n---\nname: b\n---\nBody\n", "Body");
        check("\u{FEFF}Marked\n", "Marked");
        check("---\ndescription: said\n---\n# Title\n", "said");
        check("---\ndescription: ''\n---\n# Title\n", "Title");
        check("a\u{202E}b\u{7}\n", "ab");
        check(&format!("{}\n", "x".repeat(300)), &format!("{}…", "x".repeat(200)));
        for file in
            ["", "\n \n", "---\nname: a\n---\n", "---\n", "```\n```\n", "---\nname: [\n---\nbody"]
        {
            check(file, "");
        }
    }

    #[test]
    fn bytes_that_are_not_text_give_only_the_reason() {
        let not_text = MemoryHeader {
            malformed: Some("not UTF-8 text".to_owned()),
            ..MemoryHeader::default()
        };
        for bytes in
            [&b"---\nname: \xFF\n---\n"[..], b"---\nname: a\0\n---\n", b"\xFF\xFE-\0", b"a\xC3"]
        {
            assert_eq!(parse_header(bytes), not_text, "{bytes:?}");
        }
    }

    #[test]
    fn a_cut_in_the_middle_of_a_character_is_no_error() {
        for shift in 0..4 {
            let file =
                format!("---\nname: a\n---\n{}{}", "x".repeat(shift), "𝒳".repeat(HEAD_BYTES_MAX));
            let first_line = description_line(body(&file));
            let expected =
                MemoryHeader { name: Some("a".to_owned()), first_line, ..MemoryHeader::default() };
            assert_eq!(parse_header(file.as_bytes()), expected);
            assert_eq!(parse_header(&file.as_bytes()[..HEAD_BYTES_MAX]), expected);
        }
    }

    #[test]
    fn fields_before_the_cut_are_read() {
        let long = "word ".repeat(HEAD_BYTES_MAX);
        check(
            &format!("---\nname: a\ntype: user\ndescription: {long}\n---\n"),
            "name=a | type=user | malformed=frontmatter goes on beyond 4096 bytes",
        );
        check(&format!("---\n\n{long}"), "");
    }

    #[test]
    fn a_description_is_short_and_holds_nothing_invisible() {
        let check = |text: &str, expected: &str| assert_eq!(description_line(text), expected);
        check("  a \t\r\n\u{2003} b\u{A0}", "a b");
        check("a\u{7}b\u{1b}[1mc", "ab[1mc");
        check("a\u{200B}b\u{202E}c\u{E0041}d\u{FEFF}e\u{AD}f\u{2063}g", "abcdefg");
        check("👩\u{200D}💻 می\u{200C}خواهم", "👩\u{200D}💻 می\u{200C}خواهم");
        check("a\u{200D}b 👩\u{200D}\u{200D}x\u{200D} \u{200D}y", "ab 👩x y");
        check("❤\u{FE0F} ❤\u{FE01}\u{E0100}", "❤\u{FE0F} ❤");
        check(&"é".repeat(200), &"é".repeat(200));
        check(&"é".repeat(201), &format!("{}…", "é".repeat(200)));
        check(&format!("{} bc", "a".repeat(199)), &format!("{}…", "a".repeat(199)));
        check(&format!("bell\u{7}{}", "x".repeat(496)), &format!("bell{}…", "x".repeat(196)));
    }

    #[test]
    fn hostile_yaml_is_bounded_in_time() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..40 {
            let aliases = vec![format!("*a{}", n - 1); 9].join(", ");
            bomb.extend([format!("a{n}: &a{n} [{aliases}]\n")]);
        }
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(2_000), ["*a"; 100].join(", "));
        let long_list = long.replacen("&a ", "&a [b, c: ", 1).replacen('\n', "]\n", 1);
        let endless = "a: &a [*a]\n".to_owned();
        let kept = format!(
            "a: &a [{}]\nb: {}*a, *a, *a, *a{}\n",
            "x".repeat(2_000),
            "&c [".repeat(12),
            "]".repeat(12)
        );
        let deep_aliases = (1..10).fold("a0: &a0 x\n".to_owned(), |yaml, n| {
            format!("{yaml}a{n}: &a{n} [[[[*a{}]]]]\n", n - 1)
        });
        let deep_flow = format!("a: {}\n", "[".repeat(HEAD_BYTES_MAX / 2));
        let deep_map = format!("a: {}\n", "{a: ".repeat(HEAD_BYTES_MAX / 8));
        let deep_lists = format!("a:\n {}\n", "- ".repeat(HEAD_BYTES_MAX / 4));
        for yaml in
            [bomb, long, long_list, endless, kept, deep_aliases, deep_flow, deep_map, deep_lists]
        {
            let file = format!("---\nname: n\n{yaml}---\nbody");
            assert_eq!(parse_header(file.as_bytes()).name, None, "{yaml:.40}");
            assert!(parse_header(file.as_bytes()).malformed.is_some(), "{yaml:.40}");
            assert_eq!(body(&file), "body", "{yaml:.40}");
        }
    }
}

#[test]
fn the_body_begins_after_the_frontmatter() {
    let check = |text: &str, expected: &str| assert_eq!(body(text), expected, "{text:?}");
    check("---\nname: a\n---\nbody\n", "body\n");
    check("\u{FEFF}---\r\nname: a\r\n---\r\n\r\nbody", "\r\nbody");
    check("---\nname: a: b\n---\nbody", "body");
    check("---\nname: a\n---", "");
    check("\u{FEFF}body", "body");
    check("body", "body");
    check("---\nname: never closed", "---\nname: never closed");
    check("---\n- a\n---\nbody", "---\n- a\n---\nbody");
    check("---\nprose\n---\nbody", "---\nprose\n---\nbody");
}

#[test]
fn a_revision_has_one_spelling() {
    let revision = Revision::digest(b"");
    let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(revision.to_string(), text);
    assert_eq!(text.parse(), Ok(revision));
    let no_hex = text.replace('e', "g");
    let upper = text.to_uppercase();
    let spaced = format!("{text} ");
    let wide = "é".repeat(32);
    for bad in [
        "",
        part(text, 1..),
        part(text, 2..),
        &no_hex,
        &upper,
        &spaced,
        &wide,
        &format!("+{}", part(text, 1..)),
    ] {
        assert_eq!(bad.parse::<Revision>(), Err(ParseRevisionError), "{bad:?}");
    }
}

mod fields {
    use super::*;

    #[track_caller]
    fn check(text: &str, value: &str, expected: &str) {
        assert_eq!(set_field(text, "description", value), expected, "{text:?}");
    }

    #[test]
    fn a_value_is_replaced_and_every_other_byte_kept() {
        check(
            "---\nname: a\ndescription: old\n---\nbody",
            "new",
            "---\nname: a\ndescription: new\n---\nbody",
        );
        check(
            "\u{FEFF}---\r\n# top\r\ndescription:   'old'  # why\r\nx: [1,  2]\r\n---\r\nbody\r\n",
            "new",
            "\u{FEFF}---\r\n# top\r\ndescription:   new  # why\r\nx: [1,  2]\r\n---\r\nbody\r\n",
        );
        check("---\n\"description\": old\n---", "new", "---\n\"description\": new\n---");
        check(
            "---\n{description: old, name: a}\n---\n",
            "new",
            "---\n{description: new, name: a}\n---\n",
        );
    }

    #[test]
    fn values_of_several_lines_are_replaced_whole() {
        let rest = "# about the name\nname: a\n---\nbody";
        for old in [
            " >-\n  one\n\n  two",
            " |\n  # not a comment\n  two\n",
            " one\n  two",
            " \"one\n  two\"",
            "\n- one\n- two",
            "\n  - one\n  -\n    two",
            " [one,\n two\n]",
            "\n  one: 1\n  two: 2",
            "",
            " ~",
        ] {
            let expected = format!("---\nx: 1\ndescription: new\n{rest}");
            let text = format!("---\nx: 1\ndescription:{old}\n{rest}");
            assert_eq!(body(&text), "body");
            let edited = set_field(&text, "description", "new");
            // A blank line after the old value may stay; everything else is unchanged.
            assert_eq!(
                edited.replace("new\n\n#", "new\n#").replace("new \n", "new\n"),
                expected,
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_missing_field_is_added_at_the_end() {
        check("---\nname: a\n---\nbody", "b", "---\nname: a\ndescription: b\n---\nbody");
        check("---\r\n---\r\nbody", "b", "---\r\ndescription: b\r\n---\r\nbody");
        check("---\nname: |+\n  a\n\n---\n", "b", "---\nname: |+\n  a\n\ndescription: b\n---\n");
    }

    #[test]
    fn a_text_without_frontmatter_gets_a_block() {
        check("", "b", "---\ndescription: b\n---\n");
        check("# Title\r\n", "b", "---\r\ndescription: b\r\n---\r\n# Title\r\n");
        check("\u{FEFF}text", "b", "\u{FEFF}---\ndescription: b\n---\ntext");
        check("---\n- a\n---\n", "b", "---\ndescription: b\n---\n---\n- a\n---\n");
        check("---\nname: open", "b", "---\ndescription: b\n---\n---\nname: open");
    }

    #[test]
    fn values_that_yaml_would_read_as_something_else_are_quoted() {
        let check = |value: &str, written: &str| {
            let text = set_field("", "name", value);
            assert_eq!(text, format!("---\nname: {written}\n---\n"));
            assert_eq!(
                parse_header(text.as_bytes()).name,
                Some(value.to_owned()).filter(|v| !v.is_empty())
            );
        };
        check("plain words, (really) a_b/c.d", "plain words, (really) a_b/c.d");
        check("naïve Ünïcode", "naïve Ünïcode");
        check("", "\"\"");
        check("true", "\"true\"");
        check("No", "\"No\"");
        check("1.0", "\"1.0\"");
        check("a: b", "\"a: b\"");
        check("a #b", "\"a #b\"");
        check("- a", "\"- a\"");
        check("*a", "\"*a\"");
        check("say \"hi\" \\ bye", r#""say \"hi\" \\ bye""#);
    }

    #[test]
    fn broken_frontmatter_is_repaired_before_it_is_changed() {
        check(
            "---\nname: a\ndescription: b: c\n---\nbody",
            "new",
            "---\nname: a\ndescription: new\n---\nbody",
        );
        assert_eq!(
            set_field("---\r\ndescription: b: c # d\r\nx: y\r\n---\r\nbody", "name", "ann"),
            "---\r\ndescription: \"b: c # d\"\r\nx: y\r\nname: ann\r\n---\r\nbody"
        );
        check(
            "---\nname: a\ndescription: [b\n  c\n---\nbody",
            "new",
            "---\nname: a\ndescription: new\n---\nbody",
        );
        check(
            "---\nname: a\nx: [b\n  c\n---\nbody",
            "new",
            "---\ndescription: new\n---\n---\nname: a\nx: [b\n  c\n---\nbody",
        );
    }

    #[test]
    fn a_repair_quotes_only_broken_values() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(with_frontmatter_repaired(text).as_deref(), expected, "{text:?}");
        };
        check(
            "---\nname: a\n# c\ndescription: RULE (0.8): never\nmetadata:\n  type: user\nx: \"y\" z\n---\nb",
            Some(
                "---\nname: a\n# c\ndescription: \"RULE (0.8): never\"\nmetadata:\n  type: user\nx: \"\\\"y\\\" z\"\n---\nb",
            ),
        );
        check("---\nname: a\n---\n", None);
        check("---\nname: [\n  a\n---\n", None);
        check("no frontmatter", None);
    }

    #[test]
    fn replacing_a_field_keeps_the_fields_that_repeat_it() {
        // The new value must not become that of `name`, which repeats the old one.
        let text = "---\ndescription: &d old\nname: *d\n---\nbody";
        let edited = set_field(text, "description", "new");
        assert_eq!(parse_header(edited.as_bytes()).description, "new");
        assert!(edited.ends_with(text), "{edited:?}");
    }

    proptest! {
        #[test]
        fn any_value_reads_back(value in any::<String>(), text in texts()) {
            let edited = set_field(&text, "description", &value);
            let set = frontmatter::read(&edited);
            let frontmatter::Frontmatter::Fields(_, fields) = set else {
                return Err(TestCaseError::fail(format!("{edited:?}")));
            };
            prop_assert_eq!(
                frontmatter::last_value(&fields, "description"),
                Some(&frontmatter::FieldValue::Text(value.clone()))
            );
            prop_assert!(edited.ends_with(body(&text)), "{:?}", edited);
            if text.contains('\0') {
                return Ok(()); // no text to `head`
            }
            let (before, after) = (parse_header(text.as_bytes()), parse_header(edited.as_bytes()));
            prop_assert_eq!(after.description, description_line(&value));
            if before.malformed.is_none() && before.name.is_some() {
                prop_assert_eq!(after.name, before.name);
            }
        }

        #[test]
        fn setting_the_same_value_again_changes_nothing(value in any::<String>(), text in texts()) {
            let once = set_field(&text, "description", &value);
            prop_assert_eq!(set_field(&once, "description", &value), once);
        }
    }
}

mod cut {
    use super::*;

    /// Checks the entries of a body, and that they are the same below frontmatter.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let show = |text: &str| -> Vec<String> {
            entries(text).iter().map(|entry| part(text, entry.range.clone()).to_owned()).collect()
        };
        assert_eq!(show(text), expected, "{text:?}");
        assert_eq!(show(&format!("---\nname: n\n---\n{text}")), expected, "{text:?}");
    }

    #[test]
    fn each_top_level_bullet_is_an_entry_with_what_is_below_it() {
        check(
            "- a\n- b\n  more\n  - nested\n\n  still b\n* c\n+ d",
            &["- a\n", "- b\n  more\n  - nested\n\n  still b\n", "* c\n", "+ d"],
        );
        check("1. a\n2. b\nlazy\n\n3) c\n", &["1. a\n", "2. b\nlazy\n", "3) c\n"]);
        check(
            "- a\n  ```sh\n  - not a bullet\n  ```\n\n- b\n",
            &["- a\n  ```sh\n  - not a bullet\n  ```\n", "- b\n"],
        );
        check("-\n- \n- a\n", &["- a\n"]);
        check("- [ ] a\r\n- [x] b\r\n", &["- [ ] a\r\n", "- [x] b\r\n"]);
    }

    #[test]
    fn a_paragraph_is_an_entry_with_its_explanations() {
        check("a\nb\n\nc", &["a\nb\n", "c"]);
        check("a\nWhy: b\nHow to apply: c\n", &["a\nWhy: b\nHow to apply: c\n"]);
        check(
            "a\n\nWhy: b\n\nHow to apply: c\n\nd\n",
            &["a\n\nWhy: b\n\nHow to apply: c\n", "d\n"],
        );
        check(
            "a\n\n**Why:** b\n\n**How to apply**: c\n",
            &["a\n\n**Why:** b\n\n**How to apply**: c\n"],
        );
        check("- a\n- b\n\nwhy: c\n", &["- a\n", "- b\n\nwhy: c\n"]);
        check(
            "a\n\nHow to apply:\n\n- b\n- c\n\nd\n",
            &["a\n\nHow to apply:\n\n- b\n- c\n", "d\n"],
        );
        check("a\n\nWhy: b\n- c\n", &["a\n\nWhy: b\n", "- c\n"]);
        check("Why: a\n", &["Why: a\n"]);
        check("a\n\nWhy not: b\n\nWhynot\n", &["a\n", "Why not: b\n", "Whynot\n"]);
    }

    #[test]
    fn nothing_is_joined_across_a_heading() {
        check("a\n\n## More\n\nWhy: b\n", &["a\n", "Why: b\n"]);
        check("a\n\n---\n\nWhy: b\n", &["a\n", "Why: b\n"]);
    }

    #[test]
    fn headings_breaks_and_blank_lines_are_no_entries() {
        check("# H\n\n\n***\n\nTitle\n=====\n\nOther\n-----\n\n___\n", &[]);
        check("", &[]);
        check(" \n\t\n", &[]);
    }

    #[test]
    fn every_other_block_is_one_entry() {
        check("```\n- a\n\n# b\n```\n", &["```\n- a\n\n# b\n```\n"]);
        check(
            "| a | b |\n|---|---|\n| 1 | 2 |\n\nx\n",
            &["| a | b |\n|---|---|\n| 1 | 2 |\n", "x\n"],
        );
        check("<div>\n- a\n</div>\n\nx", &["<div>\n- a\n</div>\n", "x"]);
        check("> - a\n>\n> b\nlazy\n", &["> - a\n>\n> b\nlazy\n"]);
        check("    code\n\n    more\n", &["    code\n\n    more\n"]);
        check("```\nnever closed\n\n- a", &["```\nnever closed\n\n- a"]);
    }

    #[test]
    fn text_that_markdown_does_not_render_is_still_an_entry() {
        check("[a]: https://b.example 'c'\n\ntext\n", &["[a]: https://b.example 'c'\n", "text\n"]);
        check("<!-- a -->\n\ntext\n", &["<!-- a -->\n", "text\n"]);
        check("one\ntwo\n---\nthree\n", &["one\ntwo\n", "three\n"]);
        check("a\rb\r\rc", &["a\rb\r", "c"]);
        check("> <!-- \ra: b\n    c\n\r -->", &["> <!-- \ra: b\n", "    c\n", " -->"]);
    }

    #[test]
    fn a_break_or_a_list_in_front_is_body() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<&str> =
                entries(text).iter().map(|e| part(text, e.range.clone())).collect();
            assert_eq!(found, expected);
        };
        check("---\n- a\n- b\n---\nc\n", &["- a\n", "- b\n", "c\n"]);
        check("---\n\nfact\n\n---\n", &["fact\n"]);
        check("\u{FEFF}- a\n- b\n", &["- a\n", "- b\n"]);
    }

    #[test]
    fn the_first_line_has_no_bullet() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> = entries(text).into_iter().map(|e| e.first_line).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("- a\n-\n  b\n*   c **d**\n10. e\n11) f\n", &["a", "b", "c **d**", "e", "f"]);
        check("2026 was long\n\n**bold** -x\n", &["2026 was long", "**bold** -x"]);
        check("-5 degrees\n", &["-5 degrees"]);
        check("- - a\n", &["- a"]);
    }

    #[test]
    fn removing_an_entry_keeps_the_rest() {
        let text = "---\nname: n\n---\n# H\n\n- a\n- b\n  c\n\nlast";
        let removed: Vec<String> = entries(text).iter().map(|e| without_entry(text, e)).collect();
        assert_eq!(
            removed,
            [
                "---\nname: n\n---\n# H\n\n- b\n  c\n\nlast",
                "---\nname: n\n---\n# H\n\n- a\n\nlast",
                "---\nname: n\n---\n# H\n\n- a\n- b\n  c\n\n",
            ]
        );
    }

    #[test]
    #[should_panic(expected = "a range must lie within its text")]
    fn an_entry_of_another_text_panics() {
        without_entry("- a\n", &Entry { range: 1..900, first_line: String::new() });
    }

    #[test]
    fn hostile_markdown_is_bounded_in_time() {
        for piece in [
            "[", "> ", "- ", "*a ", "`", "<a ", "![](", "1. ", "\t- ", "- a\n", "[a]: b\n", "&",
            "\\", "_*",
        ] {
            let text = piece.repeat(crate::limits::MEMORY_BYTES_MAX / piece.len());
            let covered: usize = entries(&text).iter().map(|entry| entry.range.len()).sum();
            assert!(covered <= text.len(), "{piece:?}");
        }
    }

    proptest! {
        #[test]
        fn entries_are_whole_lines_in_order_and_leave_nothing_out(text in texts()) {
            let mut end = 0;
            let mut rest = String::new();
            for entry in entries(&text) {
                let before = text.get(end..entry.range.start);
                prop_assert!(before.is_some() && entry.range.start < entry.range.end, "{:?}", entry);
                let starts_line = |at: usize| {
                    at == text.len() - body(&text).len() || part(&text, ..at).ends_with(['\n', '\r'])
                };
                prop_assert!(starts_line(entry.range.start), "{:?}", entry);
                prop_assert!(
                    entry.range.end == text.len() || starts_line(entry.range.end), "{:?}", entry
                );
                prop_assert!(!entry.first_line.trim().is_empty());
                rest.push_str(before.unwrap());
                end = entry.range.end;
                let (left, right) = (part(&text, ..entry.range.start), part(&text, entry.range.end..));
                prop_assert_eq!(without_entry(&text, &entry), [left, right].concat());
            }
            rest.push_str(part(&text, end..));
            // Text outside of all entries is frontmatter, a heading, a break or an empty bullet.
            let front = text.len() - body(&text).len();
            let outside = rest.get(front.min(rest.len())..).unwrap_or_default();
            for line in outside.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()) {
                let is_mark = |c: char| "#=-_*+.) \t0123456789".contains(c);
                let setext = outside.split(['\n', '\r']).any(|l| {
                    let l = l.trim();
                    !l.is_empty() && (l.chars().all(|c| c == '=') || l.chars().all(|c| c == '-'))
                });
                prop_assert!(line.starts_with('#') || line.chars().all(is_mark) || setext, "{:?}", line);
            }
        }
    }
}

#[track_caller]
fn part(text: &str, range: impl std::slice::SliceIndex<str, Output = str>) -> &str {
    text.get(range).expect("whole characters")
}

/// Texts made of pieces of frontmatter and entries, and arbitrary texts.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "---\n",
        "---\r\n",
        "...\n",
        "\n",
        "\r\n",
        "\r",
        " ",
        "  ",
        "\t",
        "- ",
        "* ",
        "+ ",
        "1. ",
        "> ",
        "# ",
        "name: a\n",
        "description: b\n",
        "description: |\n  c\n  d\n",
        "description: b: c\n",
        "type: [x]\n",
        "metadata:\n  type: user\n",
        "# comment\n",
        "&a ",
        "*a",
        "!t ",
        "{",
        "}",
        "[",
        "]",
        "'",
        "\"",
        ":",
        ",",
        "word",
        "é",
        "𝒳",
        "Why: ",
        "**How to apply:** ",
        "```\n",
        "~~~\n",
        "<div>\n",
        "[a]: b\n",
        "===\n",
        "\u{FEFF}",
        "    code\n",
        "| a |\n|---|\n",
        "\\",
        "`",
        "\0",
        "<!-- ",
        " -->",
    ]);
    prop_oneof![
        3 => prop::collection::vec(pieces, 0..30).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn any_bytes_have_a_head(bytes in prop::collection::vec(any::<u8>(), 0..200), text in texts()) {
        for bytes in [&bytes[..], text.as_bytes(), &[text.as_bytes(), &bytes].concat()] {
            let head = parse_header(bytes);
            prop_assert!(head.description.chars().count() <= DESCRIPTION_CHARS_MAX + 1);
            prop_assert!(!head.description.contains(char::is_control));
        }
    }
}

#[test]
fn an_unresolved_merge_conflict_is_found() {
    let check = |text: &str, expected| assert_eq!(conflict_line(text), expected, "{text:?}");
    check("a\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> main\n", Some(2));
    check("<<<<<<< HEAD\r\n||||||| base\r\n=======\r\n>>>>>>> x\r\n", Some(1));
    check("Title\n=======\n\n> > > quoted\n", None);
    check("<<<<<<<< eight\n=======\n>>>>>>> x\n", None);
    check("Git writes <<<<<<< HEAD\n=======\n>>>>>>> x\n", None);
    check("<<<<<<< HEAD\n>>>>>>> x\n", None);
    // Git merges the lines of code, too. An example is indented.
    let code = "---\nname: a\n---\nRun:\n\n```\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n```\n";
    check(code, Some(7));
    let example = code.replace("<<<", " <<<").replace("===", " ===").replace(">>>", " >>>");
    check(&example, None);
    check("<<<<<<< HEAD\n```\na\n```\n=======\n```\nb\n```\n>>>>>>> x\n", Some(1));
    check("```\n<<<<<<< HEAD\na\n```\n=======\nb\n```\n>>>>>>> x\n", Some(2));
}

#[test]
fn a_second_block_of_frontmatter_is_found() {
    let check =
        |text: &str, expected| assert_eq!(second_frontmatter_line(text), expected, "{text:?}");
    check("---\nname: a\n---\n---\nname: b\n---\nbody\n", Some(4));
    check("---\nname: a\n---\n\n\n---\nname: [\n---\nbody\n", Some(6));
    check("---\nname: a\n---\n\n---\n\nbelow a break\n", None);
    check("---\nname: a\n---\nbody\n---\nname: b\n---\n", None);
    check("text\n", None);
}

#[test]
fn entries_with_the_same_text_are_equal_statements() {
    let keys = |text: &str| statements(text).into_iter().map(|one| one.key).collect::<Vec<_>>();
    assert_eq!(keys("- I keep  bees.\n"), keys("* i keep bees\n"));
    assert_eq!(keys("# A\n- I keep bees\n"), keys("# a\n\nI keep bees.\n"));
    assert_ne!(keys("# A\n- I keep bees\n"), keys("# B\n- I keep bees\n"));
    assert_ne!(keys("- I keep bees\n"), keys("- I keep wasps\n"));
    assert_eq!(keys("- none\n- none\n"), []);
    let lines = statements("---\nname: a\n---\n\n- I keep bees\n- I drink tea\n");
    assert_eq!(lines.iter().map(|one| one.line).collect::<Vec<_>>(), [5, 6]);
}

//! Additions to context files, with tables and with random texts.

use super::*;

fn check(text: &str, addition: &str, expected: &str) {
    assert_eq!(with_added(text, addition).as_deref(), Some(expected), "{text:?} + {addition:?}");
}

#[test]
fn a_fact_is_one_line_without_dashes_before_it() {
    for (text, expected) in [
        ("uses pnpm", Some("uses pnpm")),
        ("  - - --uses pnpm ", Some("uses pnpm")),
        ("uses\npnpm\r\n\r\nhere", Some("uses pnpm here")),
        ("a\u{2028}## b", Some("a ## b")),
        ("- a -b", Some("a -b")),
        (" - \n", None),
        ("", None),
    ] {
        assert_eq!(fact(text).as_deref(), expected, "{text:?}");
    }
}

#[test]
fn an_empty_addition_changes_nothing() {
    for blank in ["", " ", "\n\r\n", "-", " - - \n", "\u{a0}\n\u{a0}"] {
        assert_eq!(with_added("# A\n", blank), None, "{blank:?}");
    }
}

#[test]
fn a_missing_section_is_added() {
    check("", "a", "## Lukasa Added Memories\n- a\n");
    check("# A\n", "a", "# A\n\n## Lukasa Added Memories\n- a\n");
    check("# A", "a", "# A\n\n## Lukasa Added Memories\n- a\n");
    check("# A\n\n", "a", "# A\n\n## Lukasa Added Memories\n- a\n");
    check("text \n\n\n", "a", "text \n\n\n## Lukasa Added Memories\n- a\n");
}

#[test]
fn a_fact_goes_to_the_end_of_the_section() {
    let heading = "## Lukasa Added Memories\n";
    for (section, expected) in [
        ("", "- n\n"),
        ("\n", "- n\n\n"),
        ("- a\n", "- a\n- n\n"),
        ("- a", "- a\n- n\n"),
        ("- a \n\n\n", "- a \n- n\n\n\n"),
        ("- a\n\n## B\n- b\n", "- a\n- n\n\n## B\n- b\n"),
        ("- a\n## B\n", "- a\n- n\n\n## B\n"),
        ("- a\n\nB\n---\n", "- a\n- n\n\nB\n---\n"),
        ("## B\n", "- n\n\n## B\n"),
        ("- a\n\n# B\n", "- a\n- n\n\n# B\n"),
        ("- a\n\n### B\n- b\n", "- a\n\n### B\n- b\n- n\n"),
        ("- a\n  - b\n", "- a\n  - b\n- n\n"),
        ("said\n", "said\n- n\n"),
        ("<div>\n", "<div>\n\n- n\n"),
    ] {
        check(&format!("{heading}{section}"), "n", &format!("{heading}{expected}"));
    }
}

#[test]
fn a_section_of_another_product_is_used_but_not_one_without_a_name() {
    check(
        "## Qwen Added Memories\n- a\n\n## Gemini Added Memories\n- b\n",
        "n",
        "## Qwen Added Memories\n- a\n- n\n\n## Gemini Added Memories\n- b\n",
    );
    check("## My  Own Added Memories ##\n", "n", "## My  Own Added Memories ##\n- n\n");
    let own = "\n## Lukasa Added Memories\n- n\n";
    for other in [
        "## Added Memories\n",
        "# Qwen Added Memories\n",
        "### Qwen Added Memories\n",
        "> ## Qwen Added Memories\n",
        "- ## Qwen Added Memories\n",
        "```\n## Qwen Added Memories\n```\n",
        "    ## Qwen Added Memories\n",
        "<!--\n## Qwen Added Memories\n-->\n",
    ] {
        check(other, "n", &format!("{other}{own}"));
    }
}

#[test]
fn a_heading_in_code_does_not_end_the_section() {
    let fenced = "## Qwen Added Memories\n- a\n\n```sh\n## not a heading\n```\n";
    check(fenced, "n", &format!("{fenced}- n\n"));
    let tilde = "## Qwen Added Memories\n~~~\n```\n## x\n~~~\n\n## B\n";
    check(tilde, "n", "## Qwen Added Memories\n~~~\n```\n## x\n~~~\n- n\n\n## B\n");
}

#[test]
fn an_addition_is_put_above_an_unclosed_code_block() {
    check(
        "## Qwen Added Memories\n- a\n\n```\n## x\n",
        "n",
        "## Qwen Added Memories\n- n\n\n- a\n\n```\n## x\n",
    );
    check("# A\n```\nx\n", "n", "## Lukasa Added Memories\n- n\n\n# A\n```\nx\n");
    check("<!--\nx\n", "n", "## Lukasa Added Memories\n- n\n\n<!--\nx\n");
    check(
        "---\na: b\n---\n```\nx\n",
        "n",
        "---\na: b\n---\n\n## Lukasa Added Memories\n- n\n\n```\nx\n",
    );
}

#[test]
fn line_breaks_and_byte_order_marks_are_kept() {
    check("# A\r\n", "n", "# A\r\n\r\n## Lukasa Added Memories\r\n- n\r\n");
    check(
        "## Qwen Added Memories\r\n- a\r\n\r\n## B\r\n",
        "n",
        "## Qwen Added Memories\r\n- a\r\n- n\r\n\r\n## B\r\n",
    );
    check("\u{feff}## Qwen Added Memories\n", "n", "\u{feff}## Qwen Added Memories\n- n\n");
    check("# A\r\n", "x\ny", "# A\r\n\r\n## Lukasa Added Memories\r\nx\r\ny\r\n");
}

#[test]
fn an_edited_text_is_added_or_replaces_the_file_that_it_contains() {
    let file = "# Rules\n\n## Qwen Added Memories\n- a\n";
    let check = |text: &str, edited: &str, expected: Result<&str, LinesMissing>| {
        let found = with_edited(text, edited).map(Option::unwrap_or_default);
        assert_eq!(found.as_deref().map_err(|error| *error), expected, "{edited}");
    };
    let with_b = "# Rules\n\n## Qwen Added Memories\n- a\n- b\n";
    check(file, "b", Ok(with_b));
    check(file, "- b\n", Ok(with_b));
    check(file, "- b\n- c\n", Ok("# Rules\n\n## Qwen Added Memories\n- a\n- b\n- c\n"));
    check(file, with_b, Ok(with_b));
    check("", with_b, Ok(with_b));
    check(file, file, Ok(""));
    check(file, "# Rules\n\n## Qwen Added Memories\n- b\n", Err(LinesMissing));
    check(file, "## Qwen Added Memories\n- a\n# Rules\n", Err(LinesMissing));
    // The file keeps its line endings and its byte order mark.
    let crlf = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
    check(&crlf(file), with_b, Ok(&crlf(with_b)));
}

#[test]
fn several_lines_are_added_unchanged() {
    check(
        "## Qwen Added Memories\n- a\n\n## B\n",
        "\n- one\n- two\r\n",
        "## Qwen Added Memories\n- a\n- one\n- two\n\n## B\n",
    );
    check(
        "## Qwen Added Memories\n- a\n",
        "Run:\n\n    just lint\n",
        "## Qwen Added Memories\n- a\n\nRun:\n\n    just lint\n",
    );
}

mod arbitrary {
    use proptest::prelude::*;

    use super::*;

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("## Qwen Added Memories".to_owned()),
            Just("## B".to_owned()),
            Just("```".to_owned()),
            Just("- a".to_owned()),
            Just("  b".to_owned()),
            Just("    c".to_owned()),
            Just("> d".to_owned()),
            Just("<!--".to_owned()),
            Just("-->".to_owned()),
            Just("---".to_owned()),
            Just(String::new()),
            "[ -~]{0,12}",
        ]
    }

    proptest! {
        #[test]
        fn all_that_was_there_is_there_in_its_order(
            lines in prop::collection::vec(line(), 0..12),
            crlf in any::<bool>(),
        ) {
            let text = lines.join(if crlf { "\r\n" } else { "\n" });
            let after = with_added(&text, "zq").unwrap();
            prop_assert!(after.ends_with('\n'));
            prop_assert_eq!(after.matches("- zq").count(), 1 + text.matches("- zq").count());
            // Taking lines away leaves the lines that were there.
            let mut old = text.lines().peekable();
            for line in after.lines() {
                if old.peek() == Some(&line) {
                    old.next();
                } else {
                    prop_assert!(["", "- zq", HEADING].contains(&line.trim_end()), "{:?}", line);
                }
            }
            prop_assert_eq!(old.next(), None);
        }

        #[test]
        fn what_was_added_is_an_item(lines in prop::collection::vec(line(), 0..12)) {
            let after = with_added(&lines.join("\n"), "zq").unwrap();
            let mut inside = Vec::new();
            let mut seen = false;
            for (event, _) in events(&after) {
                match event {
                    Event::Start(tag) => inside.push(tag),
                    Event::End(_) => drop(inside.pop()),
                    Event::Text(words) if &*words == "zq" => {
                        seen |= inside.iter().any(|tag| matches!(tag, Tag::Item))
                            && !inside.iter().any(|tag| matches!(tag, Tag::CodeBlock(_)));
                    }
                    _ => {}
                }
            }
            prop_assert!(seen, "{:?}", after);
        }
    }
}

#[test]
fn an_existing_fact_is_not_added_again() {
    let text = "# A\n- tea\n\n## Lukasa Added Memories\n- tea\r\n- More tea\n\n## Rest\n- coffee\n";
    for again in ["tea", "- tea", " tea\n"] {
        assert_eq!(with_added(text, again), None, "{again:?}");
    }
    assert!(with_added(text, "coffee").unwrap().contains("- More tea\n- coffee\n\n## Rest"));
    assert!(with_added("- tea\n", "tea").is_some(), "a line elsewhere is not an added memory");
}

#[test]
fn each_host_has_its_own_instruction_file() {
    for (client, name) in [
        ("claude-code/2.1.331", "CLAUDE.md"),
        ("Claude Desktop", "CLAUDE.md"),
        ("gemini-cli-mcp-client", "GEMINI.md"),
        ("qwen-code", "QWEN.md"),
        ("codex-mcp-client", "AGENTS.md"),
        ("", "AGENTS.md"),
    ] {
        assert_eq!(name_for(client), name, "{client}");
    }
}

//! Decoding of tool calls, and rendering of replies.

use proptest::prelude::*;
use strum::VariantArray as _;

use super::*;
use crate::change::ChangeId;
use crate::command::Warning;
use crate::document::Revision;
use crate::error_code::MemoryErrorCode;
use crate::path::Scope;

fn path(text: &str) -> MemoryPath {
    MemoryPath::parse(text, Layout::Scoped).unwrap()
}

fn path_a() -> MemoryPath {
    path("/memories/global/a.md")
}

fn scoped(arguments: &Value) -> Result<MemoryCommand, CommandError> {
    decode(arguments, Layout::Scoped)
}

#[expect(clippy::needless_pass_by_value, reason = "rows are written in place")]
fn accepts(arguments: Value, expected: MemoryCommand) {
    assert_eq!(scoped(&arguments), Ok(expected));
}

#[expect(clippy::needless_pass_by_value, reason = "rows are written in place")]
fn refuses(arguments: Value, text: &str, code: MemoryErrorCode) {
    let refusal = scoped(&arguments).unwrap_err();
    assert_eq!((refusal.to_string().as_str(), refusal.code()), (text, code));
}

fn view(lines: ViewRange) -> MemoryCommand {
    MemoryCommand::View { path: path_a(), lines }
}

#[test]
fn each_command_is_read() {
    let p = "/memories/global/a.md";
    accepts(json!({"command": "view", "path": p}), view(ViewRange::Whole));
    accepts(
        json!({"command": "create", "path": p, "file_text": ""}),
        MemoryCommand::Create { path: path_a(), file_text: String::new() },
    );
    accepts(
        json!({"command": "str_replace", "path": p, "old_str": " a ", "new_str": "b\n"}),
        MemoryCommand::StrReplace {
            path: path_a(),
            old_str: " a ".to_owned(),
            new_str: "b\n".to_owned(),
        },
    );
    accepts(
        json!({"command": "str_replace", "path": p, "old_str": "a"}),
        MemoryCommand::StrReplace {
            path: path_a(),
            old_str: "a".to_owned(),
            new_str: String::new(),
        },
    );
    accepts(
        json!({"command": "insert", "path": p, "insert_line": -1, "insert_text": "x"}),
        MemoryCommand::Insert { path: path_a(), insert_line: -1, insert_text: "x".to_owned() },
    );
    accepts(json!({"command": "delete", "path": p}), MemoryCommand::Delete { path: path_a() });
    accepts(
        json!({"command": "rename", "old_path": p, "new_path": "/memories/project/b.md"}),
        MemoryCommand::Rename { old_path: path_a(), new_path: path("/memories/project/b.md") },
    );
    assert_eq!(
        decode(&json!({"command": "delete", "path": "/memories/a.md"}), Layout::Flat),
        Ok(MemoryCommand::Delete {
            path: MemoryPath::parse("/memories/a.md", Layout::Flat).unwrap()
        })
    );
}

#[test]
fn aliases_of_a_field_are_accepted() {
    let p = "/memories/global/a.md";
    let create = || MemoryCommand::Create { path: path_a(), file_text: "x".to_owned() };
    accepts(json!({"command": "create", "file_path": p, "content": "x"}), create());
    accepts(json!({"command": "create", "filePath": p, "file_text": "x"}), create());
    accepts(json!({"command": "create", "path": null, "filePath": p, "content": "x"}), create());
    accepts(
        json!({"command": "create", "path": p, "file_path": "/memories/other", "file_text": "x", "content": "y"}),
        create(),
    );
    accepts(
        json!({"command": "str_replace", "path": p, "old_string": "a", "new_string": "b"}),
        MemoryCommand::StrReplace {
            path: path_a(),
            old_str: "a".to_owned(),
            new_str: "b".to_owned(),
        },
    );
    let rename =
        || MemoryCommand::Rename { old_path: path_a(), new_path: path("/memories/global/b.md") };
    for from in ["old_path", "path", "file_path", "filePath"] {
        accepts(
            json!({"command": "rename", from: p, "new_path": "/memories/global/b.md"}),
            rename(),
        );
    }
}

#[test]
fn null_and_unknown_fields_do_no_harm() {
    let full = json!({
        "command": "view", "path": "/memories/global/a.md", "file_text": null, "old_str": null,
        "new_str": null, "insert_line": null, "insert_text": null, "old_path": null,
        "new_path": null, "view_range": null, "offset": null, "limit": null, "mood": {"good": true},
    });
    accepts(full, view(ViewRange::Whole));
}

#[test]
fn filled_in_but_unneeded_fields_count_as_absent() {
    let p = "/memories/global/a.md";
    let filled = |command: &str| {
        json!({
            "command": command, "path": p, "file_text": "", "old_str": "", "new_str": "",
            "insert_line": 0, "insert_text": "", "old_path": " ", "new_path": "",
            "view_range": [], "offset": 0, "limit": 0,
        })
    };
    accepts(filled("view"), view(ViewRange::Whole));
    accepts(filled("delete"), MemoryCommand::Delete { path: path_a() });
    accepts(filled("create"), MemoryCommand::Create { path: path_a(), file_text: String::new() });
    let mut rename = filled("rename");
    refuses(
        rename.clone(),
        "rename requires 'old_path' and 'new_path'",
        MemoryErrorCode::InvalidArguments,
    );
    rename["new_path"] = json!("/memories/global/b.md");
    accepts(
        rename,
        MemoryCommand::Rename { old_path: path_a(), new_path: path("/memories/global/b.md") },
    );
    let mut nowhere = filled("view");
    nowhere["path"] = json!("");
    refuses(nowhere, "view requires 'path'", MemoryErrorCode::InvalidArguments);
}

#[test]
fn numbers_are_accepted_in_any_notation() {
    let p = "/memories/global/a.md";
    let range = ViewRange::Range { first: 2, last: -1 };
    for given in [json!([2, -1]), json!([2.0, "-1"]), json!("[2, -1]"), json!([" 2 ", "-1.0"])] {
        accepts(json!({"command": "view", "path": p, "view_range": given}), view(range));
    }
    accepts(
        json!({"command": "view", "path": p, "view_range": [2, -1], "offset": 9, "limit": 9}),
        view(range),
    );
    accepts(
        json!({"command": "view", "path": p, "offset": "2", "limit": 2.0}),
        view(ViewRange::Page { offset: 2, limit: Some(2) }),
    );
    accepts(
        json!({"command": "view", "path": p, "limit": 3}),
        view(ViewRange::Page { offset: 1, limit: Some(3) }),
    );
    accepts(
        json!({"command": "view", "path": p, "offset": 3}),
        view(ViewRange::Page { offset: 3, limit: None }),
    );
}

#[test]
fn a_field_of_the_wrong_type_is_named() {
    let p = "/memories/global/a.md";
    let check = |arguments, field: &str, expected: &str| {
        let text = format!("Invalid `{field}` parameter: it must be {expected}.");
        refuses(arguments, &text, MemoryErrorCode::InvalidArguments);
    };
    check(json!({"command": 1}), "command", "a string");
    check(json!({"command": "view", "path": ["x"]}), "path", "a string");
    check(json!({"command": "create", "path": p, "content": {"a": 1}}), "file_text", "a string");
    for number in
        [json!(1.5), json!("two"), json!(true), json!(1e300), json!("inf"), json!(u64::MAX)]
    {
        check(
            json!({"command": "insert", "path": p, "insert_line": number, "insert_text": "x"}),
            "insert_line",
            "a whole number",
        );
    }
    for range in [json!([1]), json!([1, 2, 3]), json!([1, "x"]), json!(3), json!("1-3")] {
        check(
            json!({"command": "view", "path": p, "view_range": range}),
            "view_range",
            "a list of two whole numbers",
        );
    }
    check(json!([1]), "arguments", "an object");
    check(json!("view"), "arguments", "an object");
}

#[test]
fn a_missing_field_is_named_with_its_command() {
    let check = |arguments, text| refuses(arguments, text, MemoryErrorCode::InvalidArguments);
    let p = "/memories/global/a.md";
    check(json!({"command": "view"}), "view requires 'path'");
    check(json!({"command": "create", "path": p}), "create requires 'path' and 'file_text'");
    check(json!({"command": "create", "content": ""}), "create requires 'path' and 'file_text'");
    check(
        json!({"command": "str_replace", "path": p}),
        "str_replace requires 'path' and 'old_str'",
    );
    let insert = "insert requires 'path', 'insert_line' and 'insert_text'";
    check(json!({"command": "insert", "path": p, "insert_line": 1}), insert);
    check(json!({"command": "insert", "path": p, "insert_text": "x"}), insert);
    check(json!({"command": "insert", "insert_line": 1, "insert_text": "x"}), insert);
    check(json!({"command": "delete", "path": null}), "delete requires 'path'");
    check(json!({"command": "rename", "path": p}), "rename requires 'old_path' and 'new_path'");
    check(json!({"command": "rename", "new_path": p}), "rename requires 'old_path' and 'new_path'");
    let command = "memory requires 'command' (view, create, str_replace, insert, delete or rename)";
    check(json!({}), command);
    check(Value::Null, command);
    check(
        json!({"command": "list\u{1b}"}),
        "Unknown command `list\\u{1b}`. Use one of: view, create, str_replace, insert, delete, \
         rename.",
    );
}

#[test]
fn a_bad_path_is_refused_by_the_grammar_for_every_command() {
    for command in MemoryCommand::VARIANTS {
        let arguments = json!({
            "command": command, "path": "/memories/global/../x", "file_text": "x", "old_str": "x",
            "insert_line": 1, "insert_text": "x", "new_path": "/memories/global/b.md",
        });
        let text = "Path /memories/global/../x would escape /memories directory";
        refuses(arguments, text, MemoryErrorCode::InvalidPath);
    }
}

#[test]
fn a_folder_path_does_not_become_a_file() {
    let refusal = |path: &str| {
        format!("Invalid memory path {path}: the path of a memory must not end with a slash")
    };
    let folder = "/memories/global/notes/";
    refuses(
        json!({"command": "create", "path": folder, "file_text": "x"}),
        &refusal(folder),
        MemoryErrorCode::InvalidPath,
    );
    refuses(
        json!({"command": "rename", "old_path": "/memories/global/a.md", "new_path": folder}),
        &refusal(folder),
        MemoryErrorCode::InvalidPath,
    );
    let notes = || path("/memories/global/notes");
    accepts(
        json!({"command": "rename", "old_path": "/memories/global/a.md/", "new_path": folder}),
        MemoryCommand::Rename { old_path: path_a(), new_path: notes() },
    );
    accepts(json!({"command": "delete", "path": folder}), MemoryCommand::Delete { path: notes() });
    accepts(
        json!({"command": "create", "path": "/memories/global/", "file_text": "x"}),
        MemoryCommand::Create { path: path("/memories/global"), file_text: "x".to_owned() },
    );
}

#[test]
fn a_reply_is_rendered_with_its_facts() {
    let done = Reply::Done {
        text: "done".to_owned(),
        change: Some(ChangeId(7)),
        revision: Some(Revision::from_bytes([0xab; 32])),
        warnings: vec![Warning { rule: "role-change", line: 2 }],
    };
    assert_eq!(
        render(&done),
        ToolOutput {
            text:
                "done\nWarning: line 2 matches the screening rule `role-change`; please check it."
                    .to_owned(),
            is_error: false,
            facts: json!({
                "ok": true, "change": 7, "revision": "ab".repeat(32),
                "warnings": [{"rule": "role-change", "line": 2}],
            }),
        }
    );
    let plain =
        Reply::Done { text: "x\n".to_owned(), change: None, revision: None, warnings: vec![] };
    assert_eq!(
        render(&plain),
        ToolOutput { text: "x\n".to_owned(), is_error: false, facts: json!({"ok": true}) }
    );
}

#[test]
fn a_refusal_is_rendered_with_its_code() {
    assert_eq!(
        render(&Reply::Refused(CommandError::EmptyOldStr)),
        ToolOutput {
            text:
                "No replacement was performed: `old_str` must not be empty. Use insert to add text."
                    .to_owned(),
            is_error: true,
            facts: json!({"ok": false, "code": "invalid_arguments"}),
        }
    );
    let current = Revision::digest(b"x");
    let conflict = CommandError::Conflict { path: path_a(), current: Some(current) };
    assert_eq!(
        render(&Reply::Refused(conflict)).facts,
        json!({"ok": false, "code": "conflict", "revision": current.to_string()})
    );
}

#[test]
fn the_tool_is_small_and_names_all_commands() {
    for layout in [Layout::Scoped, Layout::Flat] {
        let tool = json!({
            "name": NAME, "description": description(layout), "inputSchema": schema(),
        });
        // Four bytes a token is a good estimate for English and JSON; the goal is 700 tokens.
        assert!(tool.to_string().len() <= 4 * 700, "{} bytes", tool.to_string().len());
        for command in MemoryCommand::VARIANTS {
            assert!(description(layout).contains(&format!("- {command}: ")), "{command}");
        }
    }
    assert!(
        Scope::VARIANTS.iter().all(|scope| DESCRIPTION.contains(&format!("- /memories/{scope}: ")))
    );
    assert!(!FLAT_DESCRIPTION.contains("/memories/"));
    assert!(FLAT_DESCRIPTION.lines().all(|line| DESCRIPTION.contains(line)));
}

#[test]
fn the_schema_is_flat_and_of_plain_types() {
    let mut schema = schema();
    let properties = schema["properties"].take();
    let fields = properties.as_object().unwrap().iter();
    let mut lines: Vec<_> = fields.map(|(name, field)| format!("{name}: {field}")).collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    command: {"type":"string","enum":["view","create","str_replace","insert","delete","rename"]}
    file_text: {"type":"string","description":"create: the whole text"}
    insert_line: {"type":"integer","description":"insert: 0 is the top"}
    insert_text: {"type":"string","description":"insert: the lines"}
    limit: {"type":"integer","description":"view a file: how many lines"}
    new_path: {"type":"string","description":"rename: to"}
    new_str: {"type":"string","description":"str_replace: what shall be there; none deletes old_str"}
    offset: {"type":"integer","description":"view a file: first line"}
    old_path: {"type":"string","description":"rename: from"}
    old_str: {"type":"string","description":"str_replace: what is there, verbatim"}
    path: {"type":"string","description":"File or folder; all but rename"}
    view_range: {"type":"array","items":{"type":"integer"},"description":"view a file: [first, last] line, -1 is the end"}
    "#);
    assert_eq!(schema, json!({ "type": "object", "properties": null, "required": ["command"] }));
}

/// Arguments similar to those of models: known fields with values of every kind.
fn arguments() -> impl Strategy<Value = Value> {
    let field = prop::sample::select(vec![
        "path",
        "file_path",
        "filePath",
        "file_text",
        "content",
        "old_str",
        "old_string",
        "new_str",
        "new_string",
        "insert_line",
        "insert_text",
        "old_path",
        "new_path",
        "view_range",
        "offset",
        "limit",
        "other",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(Value::from("/memories/global/a.md")),
        Just(Value::from("[1, 2]")),
    ];
    let value =
        prop_oneof![scalar.clone(), prop::collection::vec(scalar, 0..3).prop_map(Value::from)];
    let command = prop_oneof![
        prop::sample::select(MemoryCommand::VARIANTS.to_vec()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    (command, prop::collection::vec((field, value), 0..8)).prop_map(|(command, fields)| {
        let mut arguments = Map::new();
        arguments.insert("command".to_owned(), command);
        arguments.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(arguments)
    })
}

proptest! {
    #[test]
    fn any_arguments_are_a_command_or_a_refusal(arguments in arguments()) {
        for layout in [Layout::Scoped, Layout::Flat] {
            match decode(&arguments, layout) {
                Ok(command) => {
                    prop_assert_eq!(Some(command.as_ref()), arguments["command"].as_str());
                    for path in command.paths() {
                        let again = MemoryPath::parse(&path.to_string(), layout);
                        prop_assert_eq!(again.as_ref(), Ok(path));
                    }
                }
                Err(refusal) => {
                    let rendered = render(&Reply::Refused(refusal));
                    prop_assert!(rendered.is_error && !rendered.text.is_empty());
                    prop_assert_eq!(&rendered.facts["ok"], &json!(false));
                }
            }
        }
    }
}

//! Tests of `install` and `uninstall` on texts as people and programs write them: entries are added and removed, and
//! all other bytes stay.

use serde_json::Value;
use testkit::Random;

use super::*;

fn server() -> ConfigPart {
    let (program, args) = ("/opt/lukasa".to_owned(), vec!["mcp".to_owned()]);
    ConfigPart::Server {
        servers: "mcpServers",
        program,
        args,
        form: ServerForm::Plain,
        members: Vec::new(),
    }
}

fn hook(event: &'static str) -> ConfigPart {
    let command = format!("/opt/lukasa hook {event} --agent qwen");
    ConfigPart::Hook { event, command, timeout: 5_000, form: HookForm::Named }
}

fn parts() -> Vec<ConfigPart> {
    vec![server(), hook("SessionStart"), hook("Stop")]
}

fn installed(text: &str) -> String {
    let edited = install(Some(text), &parts()).unwrap();
    assert_eq!(edited.notes, Vec::<String>::new(), "{text}");
    edited.text.unwrap()
}

fn uninstalled(text: &str) -> EditedText {
    uninstall(text, &parts(), &[]).unwrap()
}

/// Configuration files as people and programs write them.
const TEXTS: &[&str] = &[
    "{\n  \"model\": \"x\"\n}\n",
    "{\n\t\"model\": \"x\",\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"b\" }\n\t}\n}",
    "{\r\n    \"model\": \"x\", // why\r\n    /* last */ \"n\": 1\r\n}\r\n",
    "// mine\n{\n  // a note\n  \"a\": [1, 2],\n\n  \"hooks\": {\n    // here\n    \"Stop\": [\n      { \"hooks\": \
     [{ \"type\": \"command\", \"command\": \"make hook all\" }] }\n    ]\n  } // end\n  // and on\n}\n",
    "{\n  \"mcpServers\": {\"a\": {\"command\": \"b\"}},\n  \"hooks\": {\"Stop\": [{\"hooks\": []}]},\n}\n",
    "{\"model\":\"x\",\"deep\":{\"list\":[1,2,[]]}}",
    "{ \"model\": \"x\" }\n",
    "{\n  \"z\": 1,\n  \"a\": \"\\u00e9 \\/ \u{e9}\",\n  \"big\": 1.0e3,\n}\n\n\n",
    "\n\n  {\n     \"odd\":   {  }\n  }",
];

#[test]
fn uninstall_restores_the_bytes_before_install() {
    for text in TEXTS {
        let with = installed(text);
        let edited = uninstalled(&with);
        assert_eq!(edited.text.as_deref(), Some(*text), "{with}");
        assert_eq!(edited.notes, Vec::<String>::new());
    }
}

#[test]
fn install_keeps_all_other_values() {
    for text in TEXTS {
        let (before, after) = (jsonc::read(text).unwrap(), jsonc::read(&installed(text)).unwrap());
        let mut rest = after.clone();
        assert_eq!(rest["mcpServers"]["lukasa"]["command"], "/opt/lukasa");
        for event in ["SessionStart", "Stop"] {
            let groups = rest["hooks"][event].as_array_mut().unwrap();
            let ours = groups.pop().unwrap();
            let command = ours["hooks"][0]["command"].as_str().unwrap();
            assert!(hook::is_ours(command), "{command}");
        }
        for (name, value) in before.as_object().unwrap() {
            if name != "hooks" && name != "mcpServers" {
                assert_eq!(&rest[name.as_str()], value, "{name}");
            }
        }
    }
}

#[test]
fn a_second_install_changes_nothing() {
    for text in TEXTS {
        let once = installed(text);
        assert_eq!(installed(&once), once);
    }
}

#[test]
fn a_missing_file_is_created_and_removed_again() {
    let created = install(None, &parts()).unwrap().text.unwrap();
    insta::assert_snapshot!(created, @r#"
    {
      "mcpServers": {
        "lukasa": {
          "command": "/opt/lukasa",
          "args": ["mcp"]
        }
      },
      "hooks": {
        "SessionStart": [
          {
            "hooks": [
              {
                "name": "lukasa",
                "type": "command",
                "command": "/opt/lukasa hook SessionStart --agent qwen",
                "timeout": 5000
              }
            ]
          }
        ],
        "Stop": [
          {
            "hooks": [
              {
                "name": "lukasa",
                "type": "command",
                "command": "/opt/lukasa hook Stop --agent qwen",
                "timeout": 5000
              }
            ]
          }
        ]
      }
    }
    "#);
    assert_eq!(uninstalled(&created).text, None);
}

#[test]
fn comments_and_layout_stay_around_added_entries() {
    insta::assert_snapshot!(installed(TEXTS[3]), @r#"
    // mine
    {
      // a note
      "a": [1, 2],

      "hooks": {
        // here
        "Stop": [
          { "hooks": [{ "type": "command", "command": "make hook all" }] },
          {
            "hooks": [
              {
                "name": "lukasa",
                "type": "command",
                "command": "/opt/lukasa hook Stop --agent qwen",
                "timeout": 5000
              }
            ]
          }
        ],
        "SessionStart": [
          {
            "hooks": [
              {
                "name": "lukasa",
                "type": "command",
                "command": "/opt/lukasa hook SessionStart --agent qwen",
                "timeout": 5000
              }
            ]
          }
        ]
      }, // end
      "mcpServers": {
        "lukasa": {
          "command": "/opt/lukasa",
          "args": ["mcp"]
        }
      }
      // and on
    }
    "#);
    assert_eq!(
        installed(TEXTS[5]),
        concat!(
            r#"{"model":"x","deep":{"list":[1,2,[]]}, "mcpServers": {"lukasa": { "command": "/opt/lukasa", "#,
            r#""args": ["mcp"] }}, "hooks": {"SessionStart": [{ "hooks": [{ "name": "lukasa", "#,
            r#""type": "command", "command": "/opt/lukasa hook SessionStart --agent qwen", "#,
            r#""timeout": 5000 }] }], "Stop": [{ "hooks": [{ "name": "lukasa", "type": "command", "#,
            r#""command": "/opt/lukasa hook Stop --agent qwen", "timeout": 5000 }] }]}}"#
        )
    );
}

#[test]
fn our_edited_entries_are_removed_and_other_entries_beside_them_stay() {
    let text = r#"{
      "mcpServers": {
        "before": { "command": "b" },
        // the memory
        "lukasa": { "command": "lukasa", "args": ["mcp", "--read-only"], "env": { "A": "b" } },
        "after": { "command": "a" }
      },
      "hooks": {
        "SessionStart": [
          { "matcher": "startup", "hooks": [
            { "type": "command", "command": "date" },
            { "type": "command", "command": "'/my tools/lukasa' hook session-start", "timeout": 9 }
          ] },
          { "matcher": "x", "hooks": [{ "type": "command", "command": "lukasa hook session-start" }] }
        ]
      }
    }"#;
    assert_eq!(
        uninstalled(text).text.unwrap(),
        r#"{
      "mcpServers": {
        "before": { "command": "b" },
        // the memory
        "after": { "command": "a" }
      },
      "hooks": {
        "SessionStart": [
          { "matcher": "startup", "hooks": [
            { "type": "command", "command": "date" }
          ] }
        ]
      }
    }"#
    );
}

#[test]
fn only_the_program_of_existing_entries_is_updated() {
    let text = |program: &str| {
        format!(
            r#"{{ "mcpServers": {{ "lukasa": {{ "args": ["mcp", "--read-only"], "command": "{program}" }} }},
  "hooks": {{ "Stop": [{{ "hooks": [{{ "command": "A=b {program} hook Stop --agent qwen", "timeout": 1 }}] }}],
    "SessionStart": [{{ "hooks": [{{ "command": "{program} hook SessionStart --agent qwen" }}] }}] }} }}"#
        )
    };
    assert_eq!(installed(&text("/old/lukasa")), text("/opt/lukasa"));
    assert_eq!(installed(&text("lukasa")), text("lukasa"));
}

#[test]
fn another_program_with_our_name_stays_and_is_noted() {
    let text = r#"{ "mcpServers": { "lukasa": { "command": "npx", "args": ["lukasa"] } } }"#;
    let notes = vec!["`mcpServers.lukasa` calls another program; it was not changed".to_owned()];
    let edited = install(Some(text), &[server()]).unwrap();
    assert_eq!(
        edited,
        EditedText { text: Some(text.to_owned()), notes: notes.clone(), ..EditedText::default() }
    );
    assert_eq!(
        uninstalled(text),
        EditedText { text: Some(text.to_owned()), notes, ..EditedText::default() }
    );
}

#[test]
fn a_file_that_cannot_be_edited_is_refused_with_the_reason() {
    fn check(text: &str, expected: &str) {
        let error = install(Some(text), &parts()).unwrap_err();
        assert_eq!(error.reason(), expected, "{text}");
        assert!(uninstall(text, &parts(), &[]).is_err() || jsonc::read(text).is_ok(), "{text}");
    }
    check("{\n  \"a\": 1\n  \"b\": 2\n}", "line 2: expected comma");
    check("{\n  \"a\": \n", "line 3: expected value after colon in object property");
    check("[]", "line 1: an object is expected");
    check("{ 'a': 1 }", "line 1: single-quoted strings are not allowed");
    check("{} {}", "line 1: text cannot contain more than one json value");
    check(r#"{ "mcpServers": [] }"#, "`mcpServers.lukasa` has a type that the agent does not read");
    check(r#"{ "hooks": { "Stop": {} } }"#, "`hooks.Stop` has a type that the agent does not read");
    check(
        r#"{ "mcpServers": {}, "mcpServers": { "a": {} } }"#,
        "`mcpServers.lukasa` is written in a form that cannot be edited",
    );
}

mod codex {
    use super::*;

    fn part() -> [ConfigPart; 1] {
        let program = "/opt/lukasa".to_owned();
        [ConfigPart::TomlServer { program, variables: vec!["LUKASA_HOME"], approved: false }]
    }

    fn installed(text: &str) -> String {
        install(Some(text), &part()).unwrap().text.unwrap()
    }

    #[test]
    fn the_server_is_added_and_removed_as_lines() {
        insta::assert_snapshot!(installed("model = 'o' # mine\n"), @r#"
        model = 'o' # mine

        [mcp_servers.lukasa]
        command = "/opt/lukasa"
        args = ["mcp"]
        env_vars = ["LUKASA_HOME"]
        "#);
        let texts = [
            "model = 'o' # mine\n",
            "a = 1\r\n[mcp_servers.docs]\r\ncommand = 'x'\r\n",
            "[[skills]]\nx = 1\n\n\n",
            "a = 1",
            "a = \"\"\"\n[mcp_servers.lukasa]\n\"\"\"\n",
        ];
        for text in texts.iter().take(4) {
            let with = installed(text);
            assert_eq!(installed(&with), with);
            assert_eq!(uninstall(&with, &part(), &[]).unwrap().text.unwrap(), *text);
        }
        // A string that looks like our table is not edited.
        let with = installed(texts[4]);
        let form = ConfigError::Form("mcp_servers.lukasa".to_owned());
        assert_eq!(uninstall(&with, &part(), &[]), Err(form));
        let created = install(None, &part()).unwrap().text.unwrap();
        assert_eq!(uninstall(&created, &part(), &[]).unwrap().text, None);
    }

    #[test]
    fn edits_around_the_table_stay() {
        let text = "a = 1\n# the memory\n[mcp_servers.lukasa]\ncommand = \"lukasa\"\nargs = [\"mcp\"]\n\n\
                    [mcp_servers.lukasa.env]\nA = \"b\"\n\n# docs\n[mcp_servers.docs]\ncommand = \"d\"\n";
        let rest = uninstall(text, &part(), &[]).unwrap().text.unwrap();
        assert_eq!(rest, "a = 1\n# the memory\n\n# docs\n[mcp_servers.docs]\ncommand = \"d\"\n");
        assert_eq!(installed(text), text);
    }

    #[test]
    fn an_inline_table_is_removed_with_its_comma_or_its_line() {
        let ours = "lukasa = { command = 'lukasa', args = ['mcp'] }";
        let rest = |text: &str| uninstall(text, &part(), &[]).unwrap().text.unwrap();
        for (text, expected) in [
            (format!("mcp_servers = {{ {ours} }}\n"), "mcp_servers = {  }\n"),
            (
                format!("mcp_servers = {{ {ours}, a = {{ command = 'b' }} }}\n"),
                "mcp_servers = { a = { command = 'b' } }\n",
            ),
            (
                format!("mcp_servers = {{ a = {{ command = 'b' }}, {ours} }}\n"),
                "mcp_servers = { a = { command = 'b' } }\n",
            ),
            (
                format!("[mcp_servers]\na.command = 'b'\n{ours} # the memory\n[x]\n"),
                "[mcp_servers]\na.command = 'b'\n[x]\n",
            ),
        ] {
            assert_eq!(rest(&text), expected);
        }
    }

    #[test]
    fn the_tools_are_approved_only_with_consent() {
        let approved = |text: &str| {
            let ConfigPart::TomlServer { program, variables, .. } = part()[0].clone() else {
                panic!()
            };
            let part = ConfigPart::TomlServer { program, variables, approved: true };
            install(Some(text), &[part]).unwrap().text.unwrap()
        };
        let mode = "default_tools_approval_mode = \"approve\"\n";
        let without = installed("a = 1\n");
        let with = approved("a = 1\n");
        assert_eq!(with, format!("{without}{mode}"));
        let header = "[mcp_servers.lukasa]\n";
        assert_eq!(approved(&without), without.replace(header, &format!("{header}{mode}")));
        let prompts = with.replace("\"approve\"", "\"prompt\"");
        assert_eq!(approved(&prompts), prompts, "the user's choice stays");
    }

    #[test]
    fn other_forms_are_refused_and_other_programs_stay() {
        let form = ConfigError::Form("mcp_servers.lukasa".to_owned());
        let dotted = "mcp_servers.lukasa.command = 'lukasa'\nmcp_servers.lukasa.args = ['mcp']\n";
        assert_eq!(uninstall(dotted, &part(), &[]), Err(form.clone()));
        assert_eq!(install(Some("mcp_servers = {}\n"), &part()), Err(form));
        let other = "[mcp_servers.lukasa]\ncommand = 'npx'\n";
        assert_eq!(uninstall(other, &part(), &[]).unwrap().text.as_deref(), Some(other));
        assert_eq!(
            install(Some("a = 1\nb = = 2\n"), &part()).map_err(|error| error.reason()),
            Err("line 2: extra `=`, expected nothing".to_owned())
        );
    }

    #[test]
    fn the_program_is_updated() {
        let text = |program| {
            format!(
                "[mcp_servers.lukasa]\nargs = [\"mcp\", \"-q\"]\ncommand = \"{program}\" \n[x]\ncommand = 1\n"
            )
        };
        assert_eq!(installed(&text("/old/lukasa")), text("/opt/lukasa"));
    }
}

/// Restores the bytes of a file as `lukasa uninstall` does.
fn undone(edited: &EditedText, before: Option<&str>) -> Option<String> {
    let text = edited.text.clone().unwrap();
    let mut record = record::InstallRecord::default();
    let file = record::FileRecord {
        file: "settings.json".into(),
        made: before.is_none(),
        folders: Vec::new(),
        revision: record::digest(&text),
        replaced: Some(edited.replaced.clone()),
        settings: edited.settings.clone(),
    };
    record.insert(file, before);
    let file = record.file_record("settings.json".as_ref()).unwrap();
    assert_eq!(file.before(&format!("{text} ")), record::PriorText::Unknown);
    match file.before(&text) {
        record::PriorText::Absent => None,
        record::PriorText::Text(text) => Some(text),
        record::PriorText::Unknown => panic!("the text was not edited"),
    }
}

#[test]
fn an_unedited_file_gets_its_bytes_back() {
    for text in
        ["", "{}", "{ }\n", "{\"hooks\": { }, \"mcpServers\":{\n}}", "{\n  // mine\n}", "\n"]
    {
        let edited = install(Some(text), &parts()).unwrap();
        assert_eq!(undone(&edited, Some(text)).as_deref(), Some(text));
    }
    assert_eq!(undone(&install(None, &parts()).unwrap(), None), None);
}

mod settings {
    use super::*;

    const OFF: ConfigPart = ConfigPart::Setting { at: &["memory", "on"], value: SettingEdit::Off };
    const RULE: ConfigPart = ConfigPart::Setting {
        at: &["permissions", "allow"],
        value: SettingEdit::InList("mcp__lukasa"),
    };

    #[test]
    fn only_changed_settings_are_restored() {
        for (before, with) in [
            ("{}", r#"{"memory": {"on": false}, "permissions": {"allow": ["mcp__lukasa"]}}"#),
            (
                r#"{"memory": {"on": true}, "permissions": {"allow": ["a"]}}"#,
                r#"{"memory": {"on": false}, "permissions": {"allow": ["a", "mcp__lukasa"]}}"#,
            ),
            (
                r#"{"memory": {"on": false}, "permissions": {"allow": ["mcp__lukasa", "a"]}}"#,
                r#"{"memory": {"on": false}, "permissions": {"allow": ["mcp__lukasa", "a"]}}"#,
            ),
        ] {
            let text = format!("{{\"z\": 1{}", before.replacen('{', ", ", 1).replace(", }", "}"));
            let parts = [OFF, RULE];
            let edited = install(Some(&text), &parts).unwrap();
            let written = edited.text.unwrap();
            let mut meant: Value = serde_json::from_str(with).unwrap();
            meant["z"] = 1.into();
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), meant);
            let restored = uninstall(&written, &parts, &edited.settings).unwrap();
            assert_eq!(restored.text.unwrap(), text);
            let unchanged = uninstall(&written, &parts, &[]).unwrap();
            assert_eq!(unchanged.text.unwrap(), written, "without a record no setting is restored");
        }
    }
}

/// A generator of JSON in many layouts, with comments and trailing commas.
struct JsonGenerator {
    random: Random,
    end: &'static str,
    text: String,
}

impl JsonGenerator {
    fn write_gap(&mut self) {
        let end = self.end;
        for _ in 0..self.random.below(3) {
            let gaps = [" ", "\t", end, "  ", end, "/* é */", "// x, \"y\": {", "// \u{1f600}"];
            let gap = *self.random.pick(&gaps);
            self.text.push_str(gap);
            if gap.starts_with("//") {
                self.text.push_str(end);
            }
        }
    }

    /// Writes items between brackets, sometimes with a trailing comma.
    fn within(
        &mut self,
        brackets: [char; 2],
        count: usize,
        mut item: impl FnMut(&mut Self, usize),
    ) {
        self.text.push(brackets[0]);
        for index in 0..count {
            self.write_gap();
            item(self, index);
            self.write_gap();
            if index + 1 < count || self.random.one_in(5) {
                self.text.push(',');
            }
        }
        self.write_gap();
        self.text.push(brackets[1]);
    }

    fn value(&mut self, depth: usize) {
        let count = self.random.below(3);
        match self.random.below(if depth == 0 { 2 } else { 4 }) {
            0 => self.text.push_str("\"lukasa hook\""),
            1 => self.text.push_str("-1.5e3"),
            2 => self.within(['[', ']'], count, |writer, _| writer.value(depth - 1)),
            _ => self.within(['{', '}'], count, |writer, index| {
                writer.member(["k", "é", "\\n"][index], |writer| writer.value(depth - 1));
            }),
        }
    }

    fn member(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        self.text.extend(["\"", name, "\""]);
        self.write_gap();
        self.text.push(':');
        self.write_gap();
        value(self);
    }

    fn document(&mut self) {
        let count = 1 + self.random.below(4);
        let names = ["model", "mcpServers", "hooks", "z"];
        let from = self.random.below(2);
        self.write_gap();
        self.within(['{', '}'], count - from.min(count - 1), |writer, index| {
            match names[(index + from) % 4] {
                "mcpServers" => writer.member("mcpServers", |writer| {
                    writer.within(['{', '}'], 1, |writer, _| writer.member("a", |w| w.value(2)));
                }),
                "hooks" => writer.member("hooks", |writer| {
                    writer.within(['{', '}'], 1, |writer, _| {
                        writer.member("Stop", |writer| {
                            writer.within(['[', ']'], 1, |writer, _| writer.value(2));
                        });
                    });
                }),
                other => writer.member(other, |writer| writer.value(3)),
            }
        });
        self.write_gap();
    }
}

#[test]
fn random_files_get_their_bytes_back() {
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let end = if random.one_in(4) { "\r\n" } else { "\n" };
        let mut writer = JsonGenerator { random, end, text: String::new() };
        writer.document();
        let text = writer.text;
        let edited = install(Some(&text), &parts()).unwrap();
        assert_eq!(undone(&edited, Some(&text)).as_deref(), Some(text.as_str()), "seed {seed}");
        let with = edited.text.unwrap();
        assert_eq!(uninstalled(&with).text.as_deref(), Some(text.as_str()), "seed {seed}: {with}");
    }
}

#[test]
fn a_hook_is_ours_if_it_calls_lukasa() {
    for (command, program) in [
        ("lukasa hook stop", "lukasa"),
        ("! command -v lukasa >/dev/null 2>&1 || lukasa hook stop", "lukasa"),
        ("/a/lukasa hook x --agent y", "/a/lukasa"),
        ("'/a b/lukasa' hook stop", "'/a b/lukasa'"),
        ("env LUKASA_HOME=/x A=1 /a/lukasa hook stop", "/a/lukasa"),
    ] {
        assert_eq!(hook::program_of(command), Some(program), "{command}");
    }
    for command in ["make hook all", "lukasa-lint hook x", "echo lukasa hook x", "lukasa hook", ""]
    {
        assert!(!hook::is_ours(command), "{command}");
    }
    assert_eq!(Value::from("a"), ConfigValue::text("a").value());
}

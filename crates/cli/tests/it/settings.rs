//! Tests of settings: `config.toml`, environment and flags.

use std::fs;

use crate::sandbox::Sandbox;

fn set(place: &Sandbox, text: &str) {
    fs::write(place.home().join("config.toml"), text).unwrap();
}

#[test]
fn an_invalid_setting_stops_every_command_and_is_named() {
    let place = Sandbox::new();
    set(&place, "files_max = 10\nfile_max = 3\n");
    insta::assert_snapshot!(place.run(&["ls"]).shown(), @"
    status 2
    --- stderr
    error: <place>/home/config.toml:2: unknown field `file_max`, expected one of `files_max`, `start_tokens_max`, `memory_list`, `memory_review_interval`, `memory_review_model`, `memory_review_timeout`, `memory_review_verbose`, `project_root`, `runner`, `child_idle_seconds`, `retention`, `tasks`, `dream`, `context`, `embeddings`, `models`, `screening`, `features`, `workspace`, `ssh`, `remotes`
      help: `lukasa --help` lists the settings
    ");
    set(&place, "[screening.policies]\n\"secrets.no-such-rule\" = \"warn\"\n");
    let ended = place.run(&["ls"]);
    assert_eq!(ended.status, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("secrets.no-such-rule"), "{}", ended.stderr);
    assert_eq!(place.run(&["completions", "bash"]).status, 0);
}

#[test]
fn settings_take_effect() {
    let place = Sandbox::new();
    set(&place, "files_max = 1\nproject_root = \"host\"\n");
    place.create("project/a.md", "a\n");
    assert!(!place.checkout().join(".lukasa").exists());
    assert_eq!(place.run(&["create", "project/b.md", "b"]).status, 5);
    let in_repo = ["create", "project/c.md", "c", "--project-root", "repo"];
    place.run_ok(&in_repo);
    assert!(place.checkout().join(".lukasa/memory/c.md").exists());
}

#[test]
fn a_tilde_that_no_shell_expanded_means_the_home_folder() {
    let place = Sandbox::new();
    let done = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = place.lukasa(args);
        let homes = ["LUKASA_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];
        for name in homes {
            command.env_remove(name);
        }
        let ended = place.run_command(command.envs(variables.iter().copied()));
        assert_eq!(ended.status, 0, "{args:?}: {}", ended.stderr);
        ended.stdout
    };
    done(&[("LUKASA_HOME", "~/.memories")], &["create", "global/a.md", "a"]);
    done(&[("LUKASA_HOME", "~")], &["create", "global/b.md", "b"]);
    fs::create_dir_all(place.home().join("config/lukasa")).unwrap();
    fs::write(place.home().join("config/lukasa/config.toml"), "\u{feff}memory_list = false\n")
        .unwrap();
    let folders =
        [("XDG_DATA_HOME", "~/data"), ("XDG_STATE_HOME", "~/st"), ("XDG_CONFIG_HOME", "~/config")];
    done(&folders, &["create", "global/c.md", "c"]);
    fs::create_dir_all(place.home().join("shop/.git")).unwrap();
    done(&folders, &["create", "project/d.md", "d", "--project", "~/shop"]);
    done(&folders, &["create", "e.md", "e", "--flat", "~/flat"]);
    let files = [
        ".memories/memory/a.md",
        "memory/b.md",
        "data/lukasa/memory/c.md",
        "st/lukasa/lukasa.db",
        "shop/.lukasa/memory/d.md",
        "flat/e.md",
    ];
    for file in files {
        assert!(place.home().join(file).exists(), "{file}");
    }
    assert!(!place.home().join("data/lukasa/memory/MEMORY.md").exists(), "the settings were read");
    assert!(!place.checkout().join("~").exists(), "no folder of that name is made");
}

#[test]
fn a_rule_can_be_relaxed() {
    let place = Sandbox::new();
    let key = ["AK", "IA", "QYLPMN5HHHFPZAM2"].concat();
    assert_eq!(place.run(&["create", "global/k.md", &key]).status, 4);
    set(&place, "[screening.policies]\nsecrets = \"warn\"\n");
    let ended = place.run(&["create", "global/k.md", &key]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("warning: line 1 matches the screening rule `secrets."));
}

#[test]
fn a_refusal_says_how_to_let_the_text_pass_once_or_always() {
    let place = Sandbox::new();
    let key = ["AK", "IA", "QYLPMN5HHHFPZAM2"].concat();
    insta::assert_snapshot!(place.run(&["create", "global/k.md", &key]).shown(), @r#"
    status 4
    --- stderr
    error: Nothing was written: line 1 matches the secrets rule `secrets.aws-access-key`. Leave that out; a person can allow it by setting the rule `secrets.aws-access-key` to warn or off.
      help: if the text is harmless, write it with `--allow secrets.aws-access-key`
      help: to allow exactly this text in all writes, also of agents, add "53de5baa315bb91d8915f039f7cd3514f4b042a08ae1036a8298d954cdc069f0" to `allowed` under [screening] in config.toml
    "#);
    let allow = ["create", "global/once.md", &key, "--allow", "secrets.aws-access-key"];
    insta::assert_snapshot!(place.run(&allow).shown(), @r"
    status 0
    --- stderr
    warning: line 1 matches the screening rule `secrets.aws-access-key`
    created global/once.md (change 1)
    ");
    // Once: the next text is screened again, but not an edit elsewhere in this one.
    assert_eq!(place.run(&["create", "global/again.md", &key]).status, 4);
    place.run_ok(&["insert", "global/once.md", "1", "more"]);
    // Always: only the digest that the refusal names, and no other value of the rule.
    let refused = place.run(&["create", "global/k.md", &key, "--json"]);
    let error: serde_json::Value = serde_json::from_str(&refused.stderr).unwrap();
    let help = error["error"]["help"].as_str().unwrap();
    let digest = help.split('"').nth(1).unwrap();
    set(&place, &format!("[screening]\nallowed = [\"{digest}\"]\n"));
    place.run_ok(&["create", "global/always.md", &key]);
    let other = ["AK", "IA", "QYLPMN5HHHFPZAM3"].concat();
    assert_eq!(place.run(&["create", "global/other.md", &other]).status, 4);
}

#[test]
fn every_writing_command_can_let_a_rule_pass() {
    let place = Sandbox::new();
    let key = ["AK", "IA", "QYLPMN5HHHFPZAM2"].concat();
    place.create("global/a.md", "x\n");
    let editor = place.script("editor", &format!("echo {key} > \"$1\""));
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("k.md"), format!("{key}\n")).unwrap();
    let source = source.display().to_string();
    let lines: [&[&str]; 4] = [
        &["replace", "global/a.md", "x", &key],
        &["insert", "global/a.md", "0", &key],
        &["edit", "global/e.md"],
        &["mv", "global/a.md", &format!("global/{key}.md")],
    ];
    for line in lines {
        let run =
            |args: &[&str]| place.run_command(place.lukasa(args).env("EDITOR", &editor)).status;
        assert_eq!(run(line), 4, "{line:?}");
        assert_eq!(run(&[line, &["--allow", "secrets"]].concat()), 0, "{line:?}");
    }
    let skipped = place.run(&["import", &source, "--to", "global/new"]);
    assert_eq!(skipped.status, 1, "{}", skipped.shown());
    let help = "`--allow secrets.aws-access-key` takes it";
    assert!(skipped.stdout.contains(help), "{}", skipped.shown());
    place.run_ok(&["import", &source, "--to", "global/new", "--allow", "secrets.aws-access-key"]);
    assert_eq!(place.view("global/new/k.md"), format!("{key}\n"));
    let ended = place.run(&["create", "global/b.md", "x", "--allow", "secrets.none"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 2
    --- stderr
    error: --allow: unknown screening rule `secrets.none`: expected the id of a rule, or a family
      help: use the name of a rule from a refusal, or a family of rules
    ");
}

#[test]
fn without_a_home_of_its_own_the_folders_are_those_of_the_system() {
    let place = Sandbox::new();
    let mut command = place.lukasa(&["create", "global/a.md", "a"]);
    command.env_remove("LUKASA_HOME").env("XDG_DATA_HOME", place.path().join("data"));
    let ended = place.run_command(&mut command);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(place.path().join("data/lukasa/memory/a.md").exists());
    assert!(place.home().join(".local/state/lukasa").is_dir());
}

#[test]
fn a_project_is_given_by_flag_or_folder() {
    let place = Sandbox::with(&[("project/a.md", "a\n")]);
    let elsewhere = |args: &[&str]| {
        let mut command = place.lukasa(args);
        place.run_command(command.current_dir(place.temporary()))
    };
    let app = place.checkout().display().to_string();
    assert_eq!(elsewhere(&["view", "project/a.md", "--project", &app]).stdout, "a\n");
    assert_eq!(elsewhere(&["view", "project/a.md"]).status, 4);
    insta::assert_snapshot!(place.run(&["ls", "--project", "nowhere"]).shown(), @r"
    status 1
    --- stderr
    error: cannot use the project folder `nowhere`: no such file or directory
    ");
    insta::assert_snapshot!(place.run(&["ls", "--workspace-id", "../x"]).shown(), @r"
    status 2
    --- stderr
    error: --workspace-id: a workspace id is 1 to 64 letters, digits, `.`, `_` or `-`, and does not begin with a dot; `@` and the name of a project may follow
    ");
}

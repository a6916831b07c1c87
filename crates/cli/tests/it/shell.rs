//! Tests of the command line itself: help, completions, manual pages, references and pipes.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::sandbox::Sandbox;

#[test]
fn the_help_lists_the_commands() {
    let help = Sandbox::new().run_ok(&["-h"]);
    let (commands, _) = help.split_once("\nOptions:\n").unwrap();
    insta::assert_snapshot!(commands, @"
    A memory for AI agents: plain Markdown in three scopes, safe, with undo

    Usage: lukasa [OPTIONS] [COMMAND]

    Read:
      ls           List memories
      view         Print a memory
      grep         Search the text of memories
      recall       Find the memories that fit a prompt

    Write:
      create       Create a memory
      replace      Replace a text that occurs exactly once
      insert       Add lines to a memory
      edit         Edit a memory in your editor
      mv           Rename or move a memory or folder
      rm           Delete memories or folders

    Remember:
      remember     Store a text in the memory that fits
      forget       Remove an entry from memories
      dream        Tidy up memories
      pending      Decide on changes that the curator proposes
      tasks        List the tasks of this workspace, latest first

    Context:
      context      Show the context that a model gets here
      pin          Pin memories, which keeps them in the context of agents
      unpin        Unpin memories
      save         Add a fact to a context file, such as `AGENTS.md`
      trust        Trust a folder, so that models get its context files and memories
      accept       Accept unreviewed memories as trusted

    History:
      log          List changes, newest first
      show         Show one change in full
      diff         Show the difference that a change made
      undo         Undo changes

    Care:
      status       Show the folders and sizes of memories
      features     Show which features are on, and the setting that decides it
      models       List and test the models that work on tasks
      runs         List the runs of models for tasks and prompts
      doctor       Check the store and repair it
      import       Import memories from another product or a folder
      export       Export memories
      migrate      Copy all memories and state of this machine to a PostgreSQL database, or back
      workspace    List or remove the workspaces of this machine

    Serve:
      ui           Open the web page that shows and edits memories
      mcp          Serve memories to an agent over MCP on stdin and stdout
      acp          Run tasks over the Agent Client Protocol on stdin and stdout
      serve        Serve memories and tasks over HTTP
      service      Install the daemon as a service of the system
      token        Print the token of the daemon, or manage the tokens in a database
      events       Show the events of the running daemon

    Set up:
      install      Set up an agent to use Lukasa
      uninstall    Remove Lukasa from the settings of an agent
      encoder      Install the encoder, with which recall finds memories by their meaning
      remote       Prepare other machines whose projects are used over SSH
      hook         Handle a hook event of an agent
      demo         Run a guided demo in a temporary home
      self         Check this program
      completions  Print the completion script of a shell
      man          Print the manual page, or write all of them to a folder
      help         Print this message or the help of the given subcommand(s)
    ");
}

#[test]
fn the_help_lists_the_flags_after_the_commands() {
    let help = Sandbox::new().run_ok(&["-h"]);
    let (_, flags) = help.split_once("\nOptions:\n").unwrap();
    insta::assert_snapshot!(flags, @"
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Location:
          --project <DIR>         Use the project that contains DIR, which may be `ssh://HOST/PATH`
          --project-root <PLACE>  Place of project memories: `repo` in the checkout, `host` on this
                                  machine only [possible values: repo, host]
          --workspace-id <ID>     Use this workspace instead of that of the git worktree
          --flat <DIR>            Mount one folder at `/memories` instead of the three scopes

    Output:
          --json          Print JSON: one value, or one value per line for `log`, `grep`, `recall`,
                          `events`, `demo`
          --color <WHEN>  When to use color; `always` also colors and aligns piped output [default:
                          auto] [possible values: auto, always, never]
          --no-pager      Do not use a pager
      -q, --quiet         Print results and errors only
      -v, --verbose...    Print more on stderr; twice for details

    Run `lukasa help COMMAND` for examples, `lukasa man` for the manual page.
    ");
}

#[test]
fn without_a_command_first_steps_are_shown() {
    let place = Sandbox::new();
    let ended = place.run(&[]);
    insta::assert_snapshot!(ended.shown(), @"
    status 0
    --- stdout
    A memory for AI agents: plain Markdown in three scopes, safe, with undo

    Start:
      lukasa install                   set up the agents on this machine
      lukasa remember 'I prefer tabs'  store a fact in the memory that fits
      lukasa ls                        list memories
      lukasa log                       list changes and their authors
      lukasa undo                      undo the last change

    Commands:
      Read        ls  view  grep  recall
      Write       create  replace  insert  edit  mv  rm
      Remember    remember  forget  dream  pending  tasks
      Context     context  pin  unpin  save  trust  accept
      History     log  show  diff  undo
      Care        status  features  models  runs  doctor  import  export  migrate  workspace
      Serve       ui  mcp  acp  serve  service  token  events
      Set up      install  uninstall  encoder  remote  hook  demo  self  completions  man  help

    `lukasa help` describes each command, `lukasa help COMMAND` shows examples.
    ");
    assert_eq!(place.run(&["--project", "."]), ended);
    assert_eq!(place.run_ok(&["help"]), place.run_ok(&["--help"]));
}

#[test]
fn the_verbs_of_the_tool_and_of_other_programs_are_understood() {
    let place = Sandbox::with(&[("global/a.md", "tea\n")]);
    assert_eq!(place.run_ok(&["cat", "global/a.md"]), "tea\n");
    assert_eq!(place.run_ok(&["list"]), place.run_ok(&["ls"]));
    assert_eq!(place.run_ok(&["search", "tea"]), place.run_ok(&["grep", "tea"]));
    place.run_ok(&["str_replace", "global/a.md", "tea", "coffee"]);
    place.run_ok(&["rename", "global/a.md", "global/b.md"]);
    assert_eq!(place.view("global/b.md"), "coffee\n");
    place.run_ok(&["delete", "-y", "global/b.md"]);
    assert_eq!(place.run_ok(&["ls"]), "");
    assert!(place.run_ok(&["help", "cat"]).contains("Usage: lukasa view"));
}

#[test]
fn requested_color_is_written_to_a_pipe_too() {
    let place = Sandbox::with(&[("global/a.md", "---\ndescription: About me\n---\n")]);
    place.run_ok(&["pin", "global/a.md"]);
    for words in [&["ls"][..], &["log"], &["diff"], &["help"], &["-h"], &[], &["ls", "-h"]] {
        let colored = place.run_ok(&[&["--color", "always"], words].concat());
        assert!(colored.contains('\u{1b}'), "{words:?}: {colored}");
        assert!(!place.run_ok(words).contains('\u{1b}'), "{words:?}");
    }
    insta::assert_snapshot!(place.run_ok(&["ls", "--color=always"]).replace('\u{1b}', "^"), @r"
    ^[2mPIN  SIZE  AGE  USES  PATH         DESCRIPTION^[0m
    ^[33m*^[0m     30B  ^[2mnow^[0m     ^[2m2^[0m  ^[1mglobal/a.md^[0m  About me
    ");
    let wrong = place.run(&["frob", "--color=always"]);
    assert!(wrong.stderr.contains("\u{1b}[1m"), "{}", wrong.stderr);
    let value = place.run_ok(&["ls", "--json", "--color", "always"]);
    assert!(value.starts_with("{\"memories\""), "{value}");
}

#[test]
fn a_wrong_command_line_is_a_usage_error_with_a_suggestion() {
    let place = Sandbox::new();
    let check = |args: &[&str], expected: &str| {
        let ended = place.run(args);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ended.stderr.contains(expected), "{args:?}: {}", ended.stderr);
    };
    check(&["frob"], "Usage: lukasa [OPTIONS] [COMMAND]");
    check(&["--json"], "run `lukasa help` for a list of commands");
    check(&["veiw"], "a similar subcommand exists: 'view'");
    check(&["view"], "<PATH>");
    check(&["view", "global/a.md", "--lines", "0"], "lines are counted from 1");
    check(&["ls", "--flat", "x", "--project", "y"], "cannot be used with");
    check(&["create", "a", "b", "c"], "unexpected argument");
    check(&["veiw", "--json"], r#"{"error":{"code":"invalid_arguments","#);
}

#[test]
fn completions_are_understood_by_their_shells() {
    let place = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run_ok(&["completions", shell]);
        // The script asks the same program that printed it.
        assert!(script.contains(env!("CARGO_BIN_EXE_lukasa")), "{shell}: {script}");
        assert!(script.contains("COMPLETE"), "{shell}: {script}");
    }
    let script = place.path().join("completions.bash");
    fs::write(&script, place.run_ok(&["completions", "bash"])).unwrap();
    let parsed = place.program("bash").arg("-n").arg(&script).output().unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Sandbox::new();
    let page = place.run_ok(&["man"]);
    assert!(page.contains(".TH lukasa 1"), "{page}");
    let folder = place.path().join("man");
    place.run_ok(&["man", "--dir", &folder.display().to_string()]);
    let mut pages: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort_unstable();
    assert!(pages.contains(&"lukasa.1".to_owned()), "{pages:?}");
    assert!(pages.contains(&"lukasa-undo.1".to_owned()), "{pages:?}");
    assert!(!pages.contains(&"lukasa-reference.1".to_owned()), "{pages:?}");
    let rendered = place.program("man").arg("-l").arg(folder.join("lukasa-undo.1")).output();
    let rendered = String::from_utf8(rendered.unwrap().stdout).unwrap();
    assert!(rendered.contains("Undo changes"), "{rendered}");
}

#[test]
fn references_are_markdown() {
    let place = Sandbox::new();
    for (topic, heading) in [
        ("cli", "# Commands\n"),
        ("codes", "# Error codes and exit statuses\n"),
        ("rules", "# Screening rules\n"),
        ("limits", "# Limits\n"),
    ] {
        let text = place.run_ok(&["reference", topic]);
        assert!(text.starts_with(heading), "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{topic} has no trailing space");
    }
}

#[test]
fn a_closed_output_pipe_is_no_failure() {
    let place = Sandbox::new();
    place.create("global/a.md", &"a line of text\n".repeat(6000));
    let mut child = place
        .program(env!("CARGO_BIN_EXE_lukasa"))
        .args(["view", "global/a.md"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Ninety thousand bytes do not fit into a pipe, so the command still writes when the reader closes it.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 4]).unwrap();
    drop(stdout);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_server_without_a_client_ends() {
    let place = Sandbox::new();
    let ended = place.run_with(&["mcp"], "");
    assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
    let ended = place.run_with(&["mcp", "--agent-class", "robot"], "");
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    warning: unknown agent class `robot`; the agent may only read, as with `explore`
    ");
}

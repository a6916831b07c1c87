//! Help, completions, manual pages, references, pipes.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::place::Place;

#[test]
fn the_help_lists_the_commands() {
    insta::assert_snapshot!(Place::new().done(&["-h"]), @r"
    A memory for AI agents: plain Markdown in three scopes, safe, with undo

    Usage: quipu [OPTIONS] <COMMAND>

    Commands:
      ls           List memories
      view         Print a memory
      create       Make a memory
      replace      Replace a text that occurs exactly once
      insert       Add lines to a memory
      rm           Delete memories or folders
      mv           Rename a memory or folder
      edit         Edit a memory in your editor
      pin          Keep memories in the agents' context
      unpin        Keep memories in context no longer
      grep         Search the text of memories
      recall       Find the memories that fit a prompt
      log          Show what was changed, newest first
      show         Show one change in full
      diff         Show what a change did, or what became of a memory
      undo         Take changes back
      remember     Remember a text where it belongs
      forget       Forget what was remembered
      dream        Tidy memories up
      tasks        List the tasks of this workspace, latest first
      save         Add a fact to a context file, such as `AGENTS.md`
      context      Show what a model would be shown here
      hot          List the memories that models are given whole, warmest first
      trust        Trust a folder: its context files may instruct models
      status       Show where memories lie and how much there is
      doctor       Look for trouble, and mend it
      import       Take over memories of another product or folder
      export       Copy memories out
      serve        Serve memories and tasks over HTTP
      service      Let the system start the daemon
      token        Print the token that the daemon asks for
      events       Show what changes, as the running daemon tells it
      mcp          Serve memories to an agent over MCP on stdin and stdout
      install      Let an agent use Quipu
      uninstall    Take from an agent what `install` gave it
      hook         Answer an agent's hook
      demo         Show all of it in a throw-away home
      completions  Print the completion script of a shell
      man          Print the manual page, or write all of them to a folder
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Where:
          --project <DIR>         Take the project of DIR instead of the current folder's
          --project-root <PLACE>  Where project memories lie: `repo` in the checkout, `host` on this
                                  host only [possible values: repo, host]
          --workspace-id <ID>     The workspace whose memories `/memories/workspace` holds
          --flat <DIR>            Mount one folder at `/memories` instead of the three scopes

    Output:
          --json          Print JSON: one value, or one a line for `log`, `grep`, `events`, `demo`
          --color <WHEN>  When to use color [default: auto] [possible values: auto, always, never]
          --no-pager      Print straight to the terminal
      -q, --quiet         Print results and errors only
      -v, --verbose...    Say more on stderr; twice for details

    Run `quipu help COMMAND` for examples, `quipu man` for the manual page.
    ");
}

#[test]
fn a_wrong_command_line_is_a_usage_error_with_a_suggestion() {
    let place = Place::new();
    let check = |args: &[&str], expected: &str| {
        let ended = place.run(args);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ended.stderr.contains(expected), "{args:?}: {}", ended.stderr);
    };
    check(&[], "Usage: quipu");
    check(&["veiw"], "a similar subcommand exists: 'view'");
    check(&["view"], "<PATH>");
    check(&["view", "global/a.md", "--lines", "0"], "lines are counted from 1");
    check(&["ls", "--flat", "x", "--project", "y"], "cannot be used with");
    check(&["create", "a", "b", "c"], "unexpected argument");
    check(&["veiw", "--json"], r#"{"error":{"code":"invalid_arguments","#);
}

#[test]
fn completions_are_understood_by_their_shells() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.done(&["completions", shell]);
        // It asks the very program that printed it.
        assert!(script.contains(env!("CARGO_BIN_EXE_quipu")), "{shell}: {script}");
        assert!(script.contains("COMPLETE"), "{shell}: {script}");
    }
    let script = place.path().join("completions.bash");
    fs::write(&script, place.done(&["completions", "bash"])).unwrap();
    let parsed = place.program("bash").arg("-n").arg(&script).output().unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
}

#[test]
fn manual_pages_are_there_for_every_command() {
    let place = Place::new();
    let page = place.done(&["man"]);
    assert!(page.contains(".TH quipu 1"), "{page}");
    let folder = place.path().join("man");
    place.done(&["man", "--dir", &folder.display().to_string()]);
    let mut pages: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort_unstable();
    assert!(pages.contains(&"quipu.1".to_owned()), "{pages:?}");
    assert!(pages.contains(&"quipu-undo.1".to_owned()), "{pages:?}");
    assert!(!pages.contains(&"quipu-reference.1".to_owned()), "{pages:?}");
    let rendered = place.program("man").arg("-l").arg(folder.join("quipu-undo.1")).output();
    let rendered = String::from_utf8(rendered.unwrap().stdout).unwrap();
    assert!(rendered.contains("Take changes back"), "{rendered}");
}

#[test]
fn references_are_markdown() {
    let place = Place::new();
    for (topic, heading) in [
        ("cli", "# Commands\n"),
        ("codes", "# Error codes and exit statuses\n"),
        ("rules", "# Screening rules\n"),
        ("limits", "# Limits\n"),
    ] {
        let text = place.done(&["reference", topic]);
        assert!(text.starts_with(heading), "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{topic} has no trailing space");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let place = Place::new();
    place.create("global/a.md", &"a line of text\n".repeat(6000));
    let mut child = place
        .program(env!("CARGO_BIN_EXE_quipu"))
        .args(["view", "global/a.md"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Ninety thousand bytes do not fit a pipe: the command is writing when its reader goes.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 4]).unwrap();
    drop(stdout);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_server_without_a_client_ends() {
    let place = Place::new();
    let ended = place.run_with(&["mcp"], "");
    assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
    let ended = place.run_with(&["mcp", "--agent-class", "robot"], "");
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    warning: `robot` is no agent class; the agent may only read, as with `explore`
    ");
}

//! The chapters of the demo.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use super::client::{DemoClient, ToolAnswer};
use super::crash;
use super::daemon;
use super::narrator::Narrator;
use super::sandbox::{DemoSandbox, ProcessOutput, text_of};
use crate::exit::Failure;

const PREFERENCES: &str = "/memories/global/preferences.md";
const BUILD: &str = "/memories/project/build.md";
const PLAN: &str = "/memories/workspace/plan.md";
const PLAN_DONE: &str = "/memories/workspace/done/plan.md";

/// Runs all chapters.
pub(super) fn run(teller: &Narrator, stage: &DemoSandbox) -> Result<(), Failure> {
    teller.narrate("Real processes and real files; every line with a tick was checked.")?;
    let mut client = start_session(teller, stage)?;
    let deleted = six_commands(teller, stage, &mut client)?;
    refusals(teller, stage, &mut client)?;
    conflict(teller, stage, &mut client)?;
    teller
        .check(client.shut_down()?, "the server exits with success when its client disconnects")?;
    crash::run(teller, stage)?;
    history(teller, stage, deleted)?;
    daemon::run(teller, stage)?;
    what_next(teller)
}

/// Calls the tool and prints the call and the answer.
fn call(
    teller: &Narrator,
    client: &mut DemoClient<'_>,
    arguments: &Value,
) -> Result<ToolAnswer, Failure> {
    teller.sent(&format!("memory {arguments}"))?;
    let answer = client.call(arguments)?;
    teller.received(&answer.text)?;
    Ok(answer)
}

/// Calls the tool and checks that the command succeeds; returns the number of its change.
fn call_ok(
    teller: &Narrator,
    client: &mut DemoClient<'_>,
    arguments: &Value,
) -> Result<Option<i64>, Failure> {
    let answer = call(teller, client, arguments)?;
    if answer.ok {
        return Ok(answer.change);
    }
    let command = arguments["command"].as_str().unwrap_or_default();
    teller.check(false, &format!("`{command}` succeeds"))?;
    Ok(None)
}

/// Runs a command line and prints it with its output.
fn run_as_person(
    teller: &Narrator,
    stage: &DemoSandbox,
    args: &[&str],
) -> Result<ProcessOutput, Failure> {
    teller.sent(&format!("$ lukasa {}", args.join(" ")))?;
    let ended = stage.run_lukasa(args)?;
    teller.received(&format!("{}{}", ended.stdout, ended.stderr))?;
    Ok(ended)
}

fn start_session<'a>(teller: &Narrator, stage: &'a DemoSandbox) -> Result<DemoClient<'a>, Failure> {
    teller.chapter("1. An agent connects")?;
    stage.git(&["-c", "init.defaultBranch=main", "init", "--quiet"])?;
    teller.narrate(&format!("A home and a git checkout, deleted at the end: {}", shown(stage)))?;
    teller.sent("$ lukasa mcp --project app --workspace-id demo")?;
    let mut client = DemoClient::start(stage)?;
    teller.sent("initialize")?;
    let server = client.initialize()?;
    let info = &server["serverInfo"];
    let revision = server["protocolVersion"].as_str().unwrap_or_default();
    let (name, version) = (&info["name"], &info["version"]);
    teller.received(&format!("server {name} {version}, protocol {revision}"))?;
    teller.check(info["name"] == "lukasa", "a child process speaks MCP as a server")?;
    teller.sent("tools/list")?;
    let listed = client.request("tools/list", &json!({}))?;
    teller.received(listed["tools"][0]["description"].as_str().unwrap_or_default())?;
    let named = |(index, name): (usize, &str)| listed["tools"][index]["name"] == name;
    let offers_all =
        ["memory", "recall", "view_memory", "save_memory"].into_iter().enumerate().all(named);
    teller.check(offers_all, "it offers the tools `memory`, `recall` and `save_memory`")?;
    Ok(client)
}

fn shown(stage: &DemoSandbox) -> String {
    stage.checkout().parent().map(|folder| folder.display().to_string()).unwrap_or_default()
}

/// Runs the chapter of the six commands; returns the number of the change that deleted the plan.
fn six_commands(
    teller: &Narrator,
    stage: &DemoSandbox,
    client: &mut DemoClient<'_>,
) -> Result<Option<i64>, Failure> {
    teller.chapter("2. Six commands, three scopes")?;
    let preferences = "- Prefers short answers\n- Writes Rust\n";
    let build = "---\ndescription: How this project is built\n---\n- Build with `make`\n";
    for (path, text) in [(PREFERENCES, preferences), (BUILD, build), (PLAN, "- Read the code\n")] {
        call_ok(teller, client, &json!({ "command": "create", "path": path, "file_text": text }))?;
    }
    call_ok(
        teller,
        client,
        &json!({ "command": "str_replace", "path": BUILD, "old_str": "`make`", "new_str": "`just`" }),
    )?;
    call_ok(
        teller,
        client,
        &json!({ "command": "insert", "path": PLAN, "insert_line": 1, "insert_text": "- Mend it" }),
    )?;
    call_ok(
        teller,
        client,
        &json!({ "command": "rename", "old_path": PLAN, "new_path": PLAN_DONE }),
    )?;
    let view = call(teller, client, &json!({ "command": "view", "path": "/memories" }))?;
    let all = [PREFERENCES, BUILD, "/memories/workspace/done/"];
    teller.check(
        view.ok && all.iter().all(|path| view.text.contains(path)),
        "the model sees one tree with the scopes global, project and workspace",
    )?;
    let global = text_of(&stage.home().join("memory/preferences.md"))?;
    teller.check(
        global.as_deref() == Some(preferences),
        "the global memory is a plain Markdown file in the user's home, byte for byte",
    )?;
    let project = text_of(&stage.checkout().join(".lukasa/memory/build.md"))?;
    teller.check(
        project == Some(build.replace("`make`", "`just`")),
        "the project's memory is in the checkout, with the one word replaced",
    )?;
    let status = stage.git(&["status", "--porcelain", "--untracked-files=all"])?;
    teller.sent("$ git status --porcelain --untracked-files=all")?;
    teller.received(&status)?;
    teller.check(
        status == "?? .lukasa/memory/build.md\n",
        "git lists this memory and no other file: it is shared with the project",
    )?;
    call_ok(teller, client, &json!({ "command": "delete", "path": "/memories/workspace/done" }))
}

fn refusals(
    teller: &Narrator,
    stage: &DemoSandbox,
    client: &mut DemoClient<'_>,
) -> Result<(), Failure> {
    teller.chapter("3. What an agent may not do")?;
    // Concatenated, so that no scanner reports this source as a leak.
    let secret = format!("gh{}_{}", "p", "Zq3xW8vN2kLm5RtY7uHs9BcD4fGj6PaE1oXi");
    let text = format!("- The deploy token is {secret}\n");
    let arguments =
        json!({ "command": "create", "path": "/memories/project/deploy.md", "file_text": text });
    let masked = arguments.to_string().replace(&secret, "<a GitHub token>");
    teller.sent(&format!("memory {masked}"))?;
    let answer = client.call(&arguments)?;
    teller.received(&answer.text)?;
    teller.check(
        answer.code.as_deref() == Some("screened") && !answer.text.contains(&secret),
        "a secret is refused by rule, and not repeated",
    )?;
    let file = stage.checkout().join(".lukasa/memory/deploy.md");
    teller.check(text_of(&file)?.is_none(), "nothing of it was written to disk")?;
    let outside = json!({ "command": "view", "path": "/memories/project/../../../etc/passwd" });
    let answer = call(teller, client, &outside)?;
    teller.check(
        answer.code.as_deref() == Some("invalid_path"),
        "a path that leads out of the memories is refused before it is used",
    )?;
    let twice = json!({ "command": "create", "path": PREFERENCES, "file_text": "mine now\n" });
    let answer = call(teller, client, &twice)?;
    teller.check(
        answer.code.as_deref() == Some("already_exists"),
        "an existing memory is not overwritten",
    )
}

/// The editor in this demo: prints that it is open, waits, and adds a line.
const EDITOR: &str = "f() { echo open; read -r go; echo '- Drinks tea' >> \"$1\"; }; f";

fn conflict(
    teller: &Narrator,
    stage: &DemoSandbox,
    client: &mut DemoClient<'_>,
) -> Result<(), Failure> {
    teller.chapter("4. Two writers of one memory")?;
    teller
        .narrate("A person opens a memory in an editor. While it is open, the agent changes it.")?;
    teller.sent("$ lukasa edit global/preferences.md")?;
    let mut command = stage.lukasa(&["edit", "global/preferences.md"]);
    command.env("VISUAL", EDITOR);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (id, (stdin, stdout)) =
        stage.start(command, |child| (child.stdin.take(), child.stdout.take()))?;
    let (mut stdin, stdout) =
        (stdin.expect("the input is piped"), stdout.expect("the output is piped"));
    let mut opened = String::new();
    let lines = BufReader::new(stdout).read_line(&mut opened);
    teller.check(lines.is_ok() && opened == "open\n", "the editor is open on a private copy")?;
    call_ok(
        teller,
        client,
        &json!({ "command": "str_replace", "path": PREFERENCES, "old_str": "short", "new_str": "very short" }),
    )?;
    let saved = stdin.write_all(b"go\n");
    teller.narrate("The person adds a line and closes the editor.")?;
    let ended = stage.finish(id)?;
    teller.received(&ended.stderr)?;
    teller.check(
        saved.is_ok() && ended.status == 3 && ended.stderr.contains("+- Drinks tea"),
        "the outdated edit is refused: exit status 3, and the difference is shown",
    )?;
    let now = text_of(&stage.home().join("memory/preferences.md"))?;
    teller.check(
        now.as_deref() == Some("- Prefers very short answers\n- Writes Rust\n"),
        "the agent's change is untouched",
    )?;
    let draft = text_of(&stage.home().join("state/drafts/global-preferences-1.md"))?;
    teller.check(
        draft.as_deref() == Some("- Prefers short answers\n- Writes Rust\n- Drinks tea\n"),
        "the person's text is kept as a draft",
    )
}

fn history(teller: &Narrator, stage: &DemoSandbox, deleted: Option<i64>) -> Result<(), Failure> {
    teller.chapter("6. History and undo")?;
    let log = run_as_person(teller, stage, &["log", "global/preferences.md"])?;
    teller.check(log.status == 0, "every change is recorded: what, when and by whom")?;
    let diff = run_as_person(teller, stage, &["diff", "global/preferences.md"])?;
    teller.check(
        diff.stdout.contains("+- Prefers very short answers"),
        "each difference can be shown in full",
    )?;
    let Some(deleted) = deleted else { return teller.check(false, "a deletion has a number") };
    teller.narrate(
        "The agent deleted the plan of its workspace in chapter 2. The person restores it.",
    )?;
    let number = deleted.to_string();
    let undo = run_as_person(teller, stage, &["--workspace-id", "demo", "undo", "--yes", &number])?;
    teller.check(undo.status == 0, "one change is undone")?;
    let plan = run_as_person(
        teller,
        stage,
        &["--workspace-id", "demo", "view", "workspace/done/plan.md"],
    )?;
    teller.check(
        plan.stdout == "- Read the code\n- Mend it\n",
        "the plan is restored, byte for byte",
    )?;
    let doctor = run_as_person(teller, stage, &["--workspace-id", "demo", "doctor"])?;
    teller.check(doctor.status == 0, "`doctor` finds nothing that needs attention")
}

fn what_next(teller: &Narrator) -> Result<(), Failure> {
    teller.chapter("All checks passed. Next steps")?;
    teller.narrate(
        "  lukasa create global/preferences.md '- Prefers short answers'
  lukasa ls
  claude mcp add --scope user lukasa -- lukasa mcp   or any other client: see README.md
  lukasa help",
    )
}

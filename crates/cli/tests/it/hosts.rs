//! Tests of real agent hosts, set up by `lukasa install`, with a scripted model on loopback.
//!
//! Each host goes through the same steps. It is installed, creates, views and recalls a memory, and is resumed in a second
//! run. If it can do so without a person, it compacts the conversation and goes on. Then it is uninstalled. The tests read the requests to the model, never the output of a host. `cargo xtask hosts` runs all of them and writes `docs/HOSTS.md`;
//! those in `slow` are left out of the usual run.

mod model;
mod table;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use self::model::{CallOutcome, Model, ToolCall, Transcript};
use self::table::{AgentRun, Approval, HostSpec, RunStart};
use self::wire::leaves;
use crate::mcp_clients::tool;
use crate::sandbox::Sandbox;

/// The time limit for one run of a host.
const RUN_TIME_MAX: Duration = Duration::from_mins(2);

/// The form in which a tool result reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ResultForm {
    /// The unchanged text.
    Text,
    /// The text as a string of a JSON document.
    InJson,
    /// Not at all.
    Missing,
}

/// The observed behavior of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column of the document")]
struct Observations {
    view: ResultForm,
    recall: ResultForm,
    /// Facts for programs, such as the revision, reach the model too.
    facts: bool,
    /// Tools must be searched before they can be called.
    searched: bool,
    /// The tools that are refused where there is no person to ask.
    refused: Vec<&'static str>,
    /// The instructions of the MCP server reach the model.
    instructions: bool,
    /// The facts reach the model when a session begins.
    block: bool,
    /// Number of times that a fact that was noted meanwhile comes with a prompt.
    recalls: usize,
    /// A resumed run starts with the facts again.
    repeats: bool,
    /// Number of times that a fact stands in the first request after a compaction; `None` if the host does not compact
    /// without a person.
    compacted: Option<usize>,
    /// The hook events that it sends in two runs, by our names.
    events: Vec<&'static str>,
}

/// All hook events, in the order of a run.
const EVENTS: [&str; 6] =
    ["session-start", "user-prompt", "post-tool-use", "pre-compact", "stop", "session-end"];

/// A memory with unique words, from before the first run.
const KNOWN: &str =
    "---\ndescription: What tea I like\n---\n- Oolong, steeped for ninety seconds.\n";
const KNOWN_FACT: &str = "Oolong, steeped for ninety seconds.";
/// The memory that the host creates.
const CREATED: &str =
    "---\ndescription: Marmalade Hill\n---\n- Marmalade Hill is 312 metres high.\n";
const CREATED_FACT: &str = "Marmalade Hill is 312 metres high.";
/// A memory that a person notes between the runs.
const NOTED: &str = "- Lake Ondine is forty metres deep.\n";
const NOTED_FACT: &str = "Lake Ondine is forty metres deep.";

fn view() -> ToolCall {
    let arguments = json!({ "command": "view", "path": "/memories/global/tea.md" });
    ToolCall { tool: "memory", arguments }
}

fn recall() -> ToolCall {
    ToolCall { tool: "recall", arguments: json!({ "prompt": "Which tea do I like?" }) }
}

fn create() -> ToolCall {
    let arguments = json!({
        "command": "create", "path": "/memories/global/hill.md", "file_text": CREATED,
    });
    ToolCall { tool: "memory", arguments }
}

/// A host in a sandbox, with its model.
struct HostSetup {
    host: &'static HostSpec,
    sandbox: Sandbox,
    model: Model,
}

impl HostSetup {
    fn new(host: &'static HostSpec) -> Self {
        let (place, model) = (Sandbox::new(), Model::start());
        (host.prepare)(&place, &model.url);
        Self { host, sandbox: place, model }
    }

    fn install(&self) {
        self.sandbox.run_ok(&["install", self.host.agent]);
    }

    /// Makes the host start our program through a script that logs its arguments.
    fn install_with_log(&self, before: &FileSnapshot) -> Vec<PathBuf> {
        self.install();
        let (program, log) = (env!("CARGO_BIN_EXE_lukasa"), self.sandbox.path().join("log"));
        let body = format!("echo \"$*\" >> '{}'\nexec '{program}' \"$@\"", log.display());
        let script = self.sandbox.script("lukasa", &body);
        let written = written_files(before, &self.files());
        for path in written.iter().filter(|path| path.is_file()) {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, text.replace(program, &script)).unwrap();
        }
        written
    }

    /// Returns the hook events that the script was started for.
    fn events(&self) -> Vec<&'static str> {
        let log = fs::read_to_string(self.sandbox.path().join("log")).unwrap();
        let is_told = |event: &&str| log.contains(&format!("hook {event} "));
        EVENTS.into_iter().filter(is_told).collect()
    }

    fn uninstall(&self) {
        self.sandbox.run_ok(&["uninstall", self.host.agent]);
    }

    fn run(&self, run: &AgentRun<'_>, calls: &[ToolCall]) -> Transcript {
        self.model.script(calls);
        let command = (self.host.command)(&self.sandbox, &self.model.url, run);
        let mut command = assert_cmd::Command::from_std(command);
        let ended = self.sandbox.run_command(command.timeout(RUN_TIME_MAX));
        let transcript = self.model.transcript();
        assert_eq!(ended.status, 0, "{}: {ended:?}", self.host.title);
        assert_eq!(transcript.outcomes.len(), calls.len(), "{}: {ended:?}", self.host.title);
        transcript
    }

    /// Returns the files of the host, without ours.
    fn files(&self) -> FileSnapshot {
        let mut files = FileSnapshot::new();
        for entry in fs::read_dir(self.sandbox.home()).unwrap() {
            let entry = entry.unwrap();
            if !["state", "memory"].iter().any(|own| entry.file_name() == *own) {
                collect_files(&entry.path(), &mut files);
            }
        }
        files
    }
}

/// Files by their path, with their bytes.
type FileSnapshot = BTreeMap<PathBuf, Vec<u8>>;

fn collect_files(path: &Path, files: &mut FileSnapshot) {
    if !path.is_dir() {
        files.insert(path.to_owned(), fs::read(path).unwrap());
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        collect_files(&entry.unwrap().path(), files);
    }
}

/// Runs all steps with a host, and compares the observations with the expected ones.
fn check(host: &'static HostSpec) {
    let refused = refused_tools(host);
    let setting = HostSetup::new(host);
    let before = setting.files();
    setting.install();
    setting.uninstall();
    assert_eq!(setting.files(), before, "uninstalled at once: {}", host.title);
    let written = setting.install_with_log(&before);
    setting.sandbox.create("global/tea.md", KNOWN);

    let prompt = "Please note how high the hill is.";
    let first = AgentRun { prompt, start: RunStart::Fresh, approval: Approval::Given };
    let first = setting.run(&first, &[create(), view(), recall()]);
    setting.sandbox.create("global/lake.md", NOTED);
    let prompt = "How deep is Lake Ondine?";
    let second = AgentRun { prompt, start: RunStart::Resumed, approval: Approval::Given };
    let second = setting.run(&second, &[view()]);

    assert_eq!(setting.sandbox.view("global/hill.md"), CREATED);
    check_prefix(host, &first);
    check_prefix(host, &second);
    let compacted = host.compaction.map(|prompt| facts_after(&setting, prompt));
    let seen = Observations { refused, compacted, ..observe(&setting, &first, &second) };
    assert_eq!(seen, (host.expected)(), "{}", host.title);
    check_hooks_log(&setting);
    setting.uninstall();
    check_uninstalled(&setting, &before, &written);
    report(&setting, &first, &seen);
}

/// Lets a host compact its conversation with this prompt and go on. Returns how often a fact stands in the next request.
fn facts_after(setting: &HostSetup, compaction: &str) -> usize {
    let resumed = |prompt| AgentRun { prompt, start: RunStart::Resumed, approval: Approval::Given };
    setting.run(&resumed(compaction), &[]);
    let third = setting.run(&resumed("And what tea do I like?"), &[view()]);
    check_prefix(setting.host, &third);
    let begin = all_text(&third.requests[0].body);
    for fact in [CREATED_FACT, NOTED_FACT] {
        assert_eq!(begin.matches(fact).count(), begin.matches(KNOWN_FACT).count(), "{begin}");
    }
    begin.matches(KNOWN_FACT).count()
}

/// Returns the tools that a host refuses without a person to ask.
fn refused_tools(host: &'static HostSpec) -> Vec<&'static str> {
    let setting = HostSetup::new(host);
    setting.install();
    setting.sandbox.create("global/tea.md", KNOWN);
    let prompt = "Look into your memory.";
    let run = AgentRun { prompt, start: RunStart::Fresh, approval: Approval::Skipped };
    let calls = [view(), recall()];
    let outcomes = setting.run(&run, &calls).outcomes;
    let is_refused = |outcome| form(outcome, KNOWN_FACT) == ResultForm::Missing;
    let both = calls.iter().zip(&outcomes);
    both.filter(|(_, outcome)| is_refused(outcome)).map(|(call, _)| call.tool).collect()
}

/// Returns the behavior of a host in two runs.
fn observe(setting: &HostSetup, first: &Transcript, second: &Transcript) -> Observations {
    let begin = all_text(&first.requests[0].body);
    let block = begin.contains("/memories/global/tea.md") && begin.contains(KNOWN_FACT);
    let ended = all_text(&first.requests.last().unwrap().body);
    let resumed = all_text(&second.requests[0].body);
    let blocks = |text: &str| text.matches("<long_term_memory>").count();
    // A host that cannot go on begins with nothing of the first run.
    if setting.host.keeps_sessions {
        let [before, after] = [&ended, &resumed].map(|text| text.matches(CREATED_FACT).count());
        assert_eq!(before, after, "what the model wrote itself is given to it: {resumed}");
    }
    let results = format!("{:?}", first.outcomes);
    let revision = regex::Regex::new("[0-9a-f]{64}").unwrap();
    Observations {
        view: form(&first.outcomes[1], &format!("     4\t- {KNOWN_FACT}")),
        recall: form(&first.outcomes[2], KNOWN_FACT),
        facts: revision.is_match(&results),
        searched: first.searched,
        refused: Vec::new(),
        instructions: begin.contains("Memories are Markdown files that outlive this conversation"),
        block,
        recalls: resumed.matches(NOTED_FACT).count(),
        repeats: blocks(&resumed) > blocks(&begin),
        compacted: None,
        events: setting.events(),
    }
}

/// Returns how a text stands in a tool result.
fn form(outcome: &CallOutcome, text: &str) -> ResultForm {
    let CallOutcome::Result(result) = outcome else { return ResultForm::Missing };
    let quoted = json!(text).to_string();
    let inner = quoted.trim_matches('"');
    // Without a character that JSON escapes, both forms are the same: the start tells them apart.
    let is_json = serde_json::from_str::<Value>(result).is_ok_and(|value| value.is_object());
    match (result.contains(text), result.contains(inner)) {
        (true, _) if !is_json => ResultForm::Text,
        (_, true) => ResultForm::InJson,
        _ => ResultForm::Missing,
    }
}

/// Returns all that a request says, entities of HTML resolved, since a host writes those for our marks.
fn all_text(body: &Value) -> String {
    leaves(body).join("\n").replace("&lt;", "<").replace("&gt;", ">")
}

/// Checks that every request begins with all of the one before: that is what a provider's cache needs.
fn check_prefix(host: &HostSpec, transcript: &Transcript) {
    let texts = |request: &model::Request| leaves(request.wire.conversation(&request.body));
    for pair in transcript.requests.windows(2) {
        let [earlier, later] = pair else { unreachable!("windows of two") };
        assert!(texts(later).starts_with(&texts(earlier)), "{}: {pair:#?}", host.title);
        // A host that keeps tools back offers more of them after a search.
        if !transcript.searched {
            let preamble = |request: &model::Request| request.wire.preamble(&request.body);
            assert_eq!(preamble(earlier), preamble(later), "{}", host.title);
        }
    }
}

/// Checks that every hook was understood.
fn check_hooks_log(setting: &HostSetup) {
    let log = fs::read_to_string(setting.sandbox.home().join("state/hooks.log"));
    assert!(log.is_err(), "{log:?}");
}

fn written_files(before: &FileSnapshot, after: &FileSnapshot) -> Vec<PathBuf> {
    after
        .iter()
        .filter(|(path, text)| before.get(*path) != Some(text))
        .map(|(path, _)| path.clone())
        .collect()
}

/// Checks that nothing of ours is left in what `install` wrote; a host writes its own things there too.
fn check_uninstalled(setting: &HostSetup, before: &FileSnapshot, written: &[PathBuf]) {
    let after = setting.files();
    for path in written {
        let left = after.get(path);
        if left != before.get(path) {
            let left = String::from_utf8_lossy(left.map_or(&[][..], Vec::as_slice));
            assert!(!left.contains("hook session-start") && !left.contains("\"mcp\""), "{left}");
        }
    }
}

/// Writes what was seen, where `cargo xtask hosts` asks for it.
fn report(setting: &HostSetup, transcript: &Transcript, seen: &Observations) {
    let Some(folder) = std::env::var_os("LUKASA_HOSTS_REPORT") else { return };
    let HostSpec { agent, title, package, notes, .. } = *setting.host;
    let manifest = tool("LUKASA_TEST_NODE_MODULES").join(package).join("package.json");
    let manifest: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    let report = json!({
        "title": title,
        "package": package,
        "version": manifest["version"],
        "wire": transcript.requests[0].wire.name(),
        "notes": notes,
        "seen": seen,
    });
    fs::write(Path::new(&folder).join(format!("{agent}.json")), report.to_string()).unwrap();
}

#[test]
fn claude_code_remembers_in_one_run_and_knows_it_in_the_next() {
    check(&table::CLAUDE_CODE);
}

#[test]
fn codex_remembers_in_one_run_and_knows_it_in_the_next() {
    check(&table::CODEX);
}

#[test]
fn qwen_code_remembers_in_one_run_and_knows_it_in_the_next() {
    check(&table::QWEN);
}

/// Hosts that take too long for every run of the tests.
mod slow {
    use super::{check, table};

    #[test]
    fn cline_remembers_in_one_run_and_knows_it_in_the_next() {
        check(&table::CLINE);
    }

    #[test]
    fn copilot_cli_remembers_in_one_run_and_knows_it_in_the_next() {
        check(&table::COPILOT);
    }

    #[test]
    fn opencode_remembers_in_one_run_and_knows_it_in_the_next() {
        check(&table::OPENCODE);
    }

    #[test]
    fn gemini_cli_remembers_in_one_run_and_knows_it_in_the_next() {
        check(&table::GEMINI);
    }
}

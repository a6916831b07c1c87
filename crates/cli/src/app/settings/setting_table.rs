//! The table of all settings with a fixed name: key, kind, default, meaning and bounds.
//!
//! The help, the web page, the JSON Schema and the check of bounds are derived from it.

use std::ops::Range;

use memory::limits::{
    EMBED_BATCH_MAX, EMBED_WAIT_MAX, REVIEW_WAIT_MAX, SCOPE_FILES_MAX, START_TOKENS_MAX,
};
use toml_edit::{Document, TableLike};

/// The maximum retention in days: a hundred years. A larger number is a typing error.
const RETENTION_DAYS_MAX: u64 = 36_500;

/// The maximum time between two scheduled dreams: a year.
const DREAM_EVERY_HOURS_MAX: u64 = 8_760;

/// The maximum number of turns between two reviews. A larger number is a typing error.
const REVIEW_INTERVAL_MAX: u64 = 10_000;

/// The maximum time that an idle child process is kept: a day.
const CHILD_IDLE_SECONDS_MAX: u64 = 86_400;

/// The maximum time that an ended task is kept: a month. History keeps its changes longer.
const TASKS_KEPT_MINUTES_MAX: u64 = 43_200;

/// The maximum of a number that needs no bound except that of its type.
const SETTING_COUNT_MAX: u64 = u32::MAX as u64;

/// The kind of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Switch,
    /// A whole number with minimum and maximum.
    Number(u64, u64),
    /// One of these words; the first is the default, if there is one.
    Choice(&'static [&'static str]),
    Text,
    List,
}

/// A table of settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownTable {
    /// The name of the table; empty for none.
    pub(crate) name: &'static str,
    /// The text above the table in the help.
    before: &'static str,
    /// The text beside the name of the table in the help.
    remark: &'static str,
    /// The settings, in the order of the help.
    pub(crate) settings: &'static [KnownSetting],
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownSetting {
    /// The key in the table.
    pub(crate) key: &'static str,
    /// The value in the help, in TOML.
    pub(crate) shown: &'static str,
    /// Whether the value in the help is the default; otherwise it is an example, and there is no default.
    pub(crate) is_default: bool,
    pub(crate) kind: ValueKind,
    pub(crate) meaning: &'static str,
    /// The reason why it can only be set in the file, if that is so.
    pub(crate) only_in_file: Option<&'static str>,
}

/// The reason for settings that decide where texts of memories are sent.
const SENDS_TEXTS: Option<&str> =
    Some("It decides where texts of memories are sent, so only the file can set it.");

const fn setting(
    key: &'static str,
    shown: &'static str,
    kind: ValueKind,
    meaning: &'static str,
) -> KnownSetting {
    KnownSetting { key, shown, is_default: true, kind, meaning, only_in_file: None }
}

const fn switch(key: &'static str, shown: &'static str, meaning: &'static str) -> KnownSetting {
    setting(key, shown, ValueKind::Switch, meaning)
}

const fn number(
    key: &'static str,
    shown: &'static str,
    (min, max): (u64, u64),
    meaning: &'static str,
) -> KnownSetting {
    setting(key, shown, ValueKind::Number(min, max), meaning)
}

const fn choice(
    key: &'static str,
    shown: &'static str,
    words: &'static [&'static str],
    meaning: &'static str,
) -> KnownSetting {
    setting(key, shown, ValueKind::Choice(words), meaning)
}

const fn text(key: &'static str, shown: &'static str, meaning: &'static str) -> KnownSetting {
    setting(key, shown, ValueKind::Text, meaning)
}

const fn list(key: &'static str, shown: &'static str, meaning: &'static str) -> KnownSetting {
    setting(key, shown, ValueKind::List, meaning)
}

const fn model(key: &'static str, shown: &'static str, meaning: &'static str) -> KnownSetting {
    text(key, shown, meaning).example().only_in_file()
}

impl KnownSetting {
    /// Marks the value in the help as an example.
    const fn example(self) -> Self {
        Self { is_default: false, ..self }
    }

    /// Marks a setting that decides where texts are sent.
    const fn only_in_file(self) -> Self {
        Self { only_in_file: SENDS_TEXTS, ..self }
    }
}

const fn table(name: &'static str, settings: &'static [KnownSetting]) -> KnownTable {
    KnownTable { name, before: "", remark: "", settings }
}

/// The settings that have a fixed name; features and screening policies are listed elsewhere.
pub(crate) const SETTING_TABLES: &[KnownTable] = &[
    table("", TOP),
    table("retention", RETENTION),
    table("tasks", TASKS),
    table("dream", DREAM),
    table("context", CONTEXT),
    KnownTable {
        remark: "models that work on tasks; without a model, rules do",
        ..table("models", MODELS)
    },
    KnownTable {
        before: PROVIDERS,
        remark: "endpoint for vectors of recall; off without url and model",
        ..table("embeddings", EMBEDDINGS)
    },
    KnownTable { before: REMOTES, ..table("ssh", SSH) },
    KnownTable { before: FEATURES, ..table("screening", SCREENING) },
];

const TOP: &[KnownSetting] = &[
    number(
        "files_max",
        "1000",
        (1, SCOPE_FILES_MAX as u64),
        "maximum number of memories in a scope",
    ),
    number(
        "start_tokens_max",
        "2500",
        (0, START_TOKENS_MAX as u64),
        "most tokens of facts that are all given when a conversation begins; 0 means only a part ever is",
    ),
    switch("memory_list", "true", "keep a MEMORY.md listing in global and workspace roots"),
    choice("project_root", "\"repo\"", &["repo", "host"], "place of project memories"),
    choice(
        "runner",
        "\"child\"",
        &["in_process", "child"],
        "process that runs tasks; default depends on [models]",
    )
    .example(),
    number(
        "child_idle_seconds",
        "60",
        (0, CHILD_IDLE_SECONDS_MAX),
        "seconds without a task after which a child is stopped",
    ),
    number(
        "memory_review_interval",
        "0",
        (0, REVIEW_INTERVAL_MAX),
        "number of turns after which a conversation is reviewed; 0 is never",
    ),
    text(
        "memory_review_model",
        "\"\"",
        "model of reviews, such as \"ollama/NAME\"; \"\" for `review` of [models]",
    )
    .only_in_file(),
    number(
        "memory_review_timeout",
        "30",
        (1, REVIEW_WAIT_MAX.as_secs()),
        "timeout of a review in seconds",
    ),
    switch("memory_review_verbose", "false", "report what a review saved"),
];

const RETENTION: &[KnownSetting] = &[
    number("days", "90", (0, RETENTION_DAYS_MAX), "days that history is kept"),
    number("mib", "256", (0, SETTING_COUNT_MAX), "MiB of earlier contents that are kept"),
];

const TASKS: &[KnownSetting] = &[number(
    "kept_minutes",
    "60",
    (1, TASKS_KEPT_MINUTES_MAX),
    "minutes that an ended task can be queried",
)];

const DREAM: &[KnownSetting] = &[
    switch("schedule", "false", "let the daemon dream by schedule"),
    number("every_hours", "24", (1, DREAM_EVERY_HOURS_MAX), "minimum hours between two dreams"),
    number(
        "after_sessions",
        "5",
        (0, SETTING_COUNT_MAX),
        "minimum number of sessions between two dreams",
    ),
];

const CONTEXT: &[KnownSetting] = &[
    list(
        "file_names",
        "[\"AGENTS.md\"]",
        "names of context files; by default QWEN.md, then AGENTS.md",
    )
    .example(),
    choice(
        "profile",
        "\"qwen\"",
        &["qwen"],
        "also load context files from ~/.qwen and a project's .qwen",
    )
    .example(),
    list("include", "[\"~/rules\"]", "folders whose context files are loaded, and imported from")
        .example(),
    list("files", "[\"~/me.md\"]", "further context files").example(),
    choice(
        "imports",
        "\"tree\"",
        &["tree", "flat"],
        "keep texts as they are, with imported files after them",
    ),
];

const MODELS: &[KnownSetting] = &[
    model("default", "\"ollama/NAME\"", "model that remembers, forgets, dreams and reviews"),
    model("remember", "\"anthropic/NAME\"", "another model that remembers; \"rules\" for none"),
    model("forget", "\"rules\"", "another model that forgets"),
    model("dream", "\"openai/NAME\"", "another model that dreams"),
    model("review", "\"ollama/NAME\"", "another model that reviews conversations"),
    model("recall", "\"openai/NAME\"", "model that selects memories for each prompt"),
    choice("fallback", "\"none\"", &["none", "rules"], "what does a task if the model fails"),
    number(
        "background_tokens",
        "1000000",
        (0, SETTING_COUNT_MAX),
        "tokens per day that models may use for background work",
    ),
];

const EMBEDDINGS: &[KnownSetting] = &[
    model("url", "\"http://localhost/v1\"", "texts are sent to URL/embeddings"),
    model("model", "\"NAME\"", "model that computes the vectors"),
    model("key_variable", "\"NAME\"", "environment variable with the key"),
    number(
        "timeout_ms",
        "2000",
        (1, EMBED_WAIT_MAX.as_secs() * 1_000),
        "timeout for the vector of a prompt",
    )
    .only_in_file(),
    number("batch", "32", (1, EMBED_BATCH_MAX as u64), "number of entries per request")
        .only_in_file(),
    switch("beyond_this_machine", "false", "allow an http:// URL of another machine")
        .only_in_file(),
];

const SSH: &[KnownSetting] = &[
    list("command", "[\"ssh\"]", "program that reaches other machines, with its first arguments")
        .only_in_file(),
    list("client_hosts", "[]", "machines whose folders an MCP client may name as roots")
        .only_in_file(),
];

const SCREENING: &[KnownSetting] =
    &[list("allowed", "[]", "SHA-256 digests of texts that are always allowed")];

const PROVIDERS: &str = "\
[models.providers.work]         provider of models named like \"work/NAME\"
  api = \"openai\"                  or \"openai-responses\", \"anthropic\", \"gemini\"
  url = \"https://host/v1\"         base URL of the API
  key_command = [\"pass\", \"x\"]     command that prints the key; or use key_variable
  beyond_this_machine = false     allow an http:// URL of another machine";

const REMOTES: &str = "\
[remotes.work]                  short name of a project: `--project remote:work`
  address = \"ssh://host/path\"     folder on another machine";

const FEATURES: &str = "\
[features]
  recall = true                   features that are on: `lukasa features` lists all
  [workspace.\"ID\".features]
  recall = false                  features that are off in one workspace";

/// The last lines of the settings in the help.
const POLICIES: &str = "  [screening.policies]
  secrets = \"refuse\"              or \"warn\", \"off\": for a rule, or a family of rules";

/// Returns the settings for the help: lines of the settings file, each with a description.
pub(crate) fn help() -> String {
    let mut text = String::new();
    let mut line = |left: &str, remark: &str| {
        let line = format!("  {left:<32}{remark}");
        text.push_str(line.trim_end());
        text.push('\n');
    };
    for table in SETTING_TABLES {
        if !table.before.is_empty() {
            line(table.before, "");
        }
        if !table.name.is_empty() {
            line(&format!("[{}]", table.name), table.remark);
        }
        for KnownSetting { key, shown, kind, meaning, .. } in table.settings {
            let others = match kind {
                ValueKind::Choice(words) if words.len() > 1 => {
                    let others = words.iter().map(|word| format!("\"{word}\""));
                    let others: Vec<_> = others.filter(|word| word != shown).collect();
                    format!("or {}: ", others.join(", "))
                }
                _ => String::new(),
            };
            line(&format!("{key} = {shown}"), &format!("{others}{meaning}"));
        }
    }
    text + POLICIES
}

/// Returns the error of the first number out of bounds, with its range. The text must be valid settings.
pub(super) fn out_of_bounds(text: &str) -> Option<(Range<usize>, String)> {
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => return Some((error.span().unwrap_or_default(), error.message().to_owned())),
    };
    SETTING_TABLES.iter().find_map(|KnownTable { name, settings, .. }| {
        let table: &dyn TableLike = match *name {
            "" => document.as_table(),
            name => document.get(name)?.as_table_like()?,
        };
        settings.iter().find_map(|KnownSetting { key, kind, .. }| {
            let (ValueKind::Number(min, max), item) = (kind, table.get(key)?) else { return None };
            let number = u64::try_from(item.as_integer()?);
            if number.is_ok_and(|number| (*min..=*max).contains(&number)) {
                return None;
            }
            let full = if name.is_empty() { (*key).to_owned() } else { format!("{name}.{key}") };
            let least = if *min == 0 { "at most".to_owned() } else { format!("from {min} to") };
            let span = item.span().expect("a parsed item has a span");
            Some((span, format!("{full} must be {least} {max}")))
        })
    })
}

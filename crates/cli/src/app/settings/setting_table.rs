//! The settings that there are: what the help lists, what the page shows and writes, and the bounds of numbers.

use std::ops::Range;

use memory::limits::{EMBED_BATCH_MAX, EMBED_WAIT_MAX, REVIEW_WAIT_MAX, SCOPE_FILES_MAX};
use toml_edit::{Document, TableLike};

/// The longest retention: what a hundred years have in days. More is a slip of the finger.
const RETENTION_DAYS_MAX: u64 = 36_500;

/// The longest time between two dreams by schedule: a year.
const DREAM_EVERY_HOURS_MAX: u64 = 8_760;

/// The most turns between two reviews of a conversation. More is a slip of the finger.
const REVIEW_INTERVAL_MAX: u64 = 10_000;

/// The longest time that a child process is kept without a task: a day.
const CHILD_IDLE_SECONDS_MAX: u64 = 86_400;

/// The longest time that a task is kept after its end: a month. History keeps what became of memories.
const TASKS_KEPT_MINUTES_MAX: u64 = 43_200;

/// The most of a number that needs no bound but that of its type.
const SETTING_COUNT_MAX: u64 = u32::MAX as u64;

/// What kind of value a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Switch,
    /// A whole number, from and to.
    Number(u64, u64),
    /// One of these words; the first is the default, if there is one.
    Choice(&'static [&'static str]),
    Text,
    List,
}

/// Settings that stand together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownTable {
    /// The name of the table; empty for none.
    pub(crate) name: &'static str,
    /// What the help says before it.
    before: &'static str,
    /// What the help says beside it.
    remark: &'static str,
    /// In the order of the help.
    pub(crate) settings: &'static [KnownSetting],
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownSetting {
    /// Its key in the table.
    pub(crate) key: &'static str,
    /// What the help shows as its value, as the file has it.
    pub(crate) shown: &'static str,
    /// Whether that is the default; if not, nothing is.
    pub(crate) is_default: bool,
    pub(crate) kind: ValueKind,
    pub(crate) meaning: &'static str,
    /// Why only the file sets it, if that is so.
    pub(crate) only_in_file: Option<&'static str>,
}

/// Texts of memories go to where these say.
const SENDS_TEXTS: Option<&str> =
    Some("It decides where texts of memories are sent, so only the file sets it.");

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
    /// Says that what is shown is no default.
    const fn example(self) -> Self {
        Self { is_default: false, ..self }
    }

    /// Says that the setting decides where texts are sent.
    const fn only_in_file(self) -> Self {
        Self { only_in_file: SENDS_TEXTS, ..self }
    }
}

const fn table(name: &'static str, settings: &'static [KnownSetting]) -> KnownTable {
    KnownTable { name, before: "", remark: "", settings }
}

/// The settings that have a fixed name. Features and screening policies come beside them.
pub(crate) const SETTING_TABLES: &[KnownTable] = &[
    table("", TOP),
    table("retention", RETENTION),
    table("tasks", TASKS),
    table("dream", DREAM),
    table("context", CONTEXT),
    KnownTable {
        remark: "who does the work of agents: rules, unless a model is named",
        ..table("models", MODELS)
    },
    KnownTable {
        before: PROVIDERS,
        remark: "who makes vectors for recall; nobody unless url and model are set",
        ..table("embeddings", EMBEDDINGS)
    },
    KnownTable { before: FEATURES, ..table("screening", SCREENING) },
];

const TOP: &[KnownSetting] = &[
    number("files_max", "1000", (1, SCOPE_FILES_MAX as u64), "memories that a scope may hold"),
    switch("memory_list", "true", "keep a MEMORY.md listing in global and workspace roots"),
    choice("project_root", "\"repo\"", &["repo", "host"], "where project memories lie"),
    choice(
        "runner",
        "\"child\"",
        &["in_process", "child"],
        "where tasks are done; else in a child of the daemon once a model does them",
    )
    .example(),
    number(
        "child_idle_seconds",
        "60",
        (0, CHILD_IDLE_SECONDS_MAX),
        "how long after its last task a child is stopped",
    ),
    number(
        "memory_review_interval",
        "0",
        (0, REVIEW_INTERVAL_MAX),
        "review a conversation after so many turns; 0 is never",
    ),
    text(
        "memory_review_model",
        "\"\"",
        "the model that does it, like \"ollama/NAME\"; \"\" for that of [models]",
    )
    .only_in_file(),
    number(
        "memory_review_timeout",
        "30",
        (1, REVIEW_WAIT_MAX.as_secs()),
        "seconds that a review may take",
    ),
    switch("memory_review_verbose", "false", "whether you are told of what a review saved"),
];

const RETENTION: &[KnownSetting] = &[
    number("days", "90", (0, RETENTION_DAYS_MAX), "how long history is kept"),
    number("mib", "256", (0, SETTING_COUNT_MAX), "how much of earlier contents is kept"),
];

const TASKS: &[KnownSetting] = &[number(
    "kept_minutes",
    "60",
    (1, TASKS_KEPT_MINUTES_MAX),
    "how long a task that is over can be asked for",
)];

const DREAM: &[KnownSetting] = &[
    switch("schedule", "false", "whether the daemon dreams although nobody asks"),
    number("every_hours", "24", (1, DREAM_EVERY_HOURS_MAX), "how long after the last dream"),
    number("after_sessions", "5", (0, SETTING_COUNT_MAX), "after how many sessions since"),
];

const CONTEXT: &[KnownSetting] = &[
    list("file_names", "[\"AGENTS.md\"]", "names of context files; else QWEN.md, then AGENTS.md")
        .example(),
    choice("profile", "\"qwen\"", &["qwen"], "load those of ~/.qwen and of a project's .qwen too")
        .example(),
    list("include", "[\"~/rules\"]", "folders whose context files are loaded, and imported from")
        .example(),
    list("files", "[\"~/me.md\"]", "further context files").example(),
    choice("imports", "\"tree\"", &["tree", "flat"], "texts stay, imported files follow"),
];

const MODELS: &[KnownSetting] = &[
    model("default", "\"ollama/NAME\"", "the model that remembers, forgets, dreams and reviews"),
    model("remember", "\"anthropic/NAME\"", "another model that remembers; \"rules\" for none"),
    model("forget", "\"rules\"", "another model that forgets"),
    model("dream", "\"openai/NAME\"", "another model that dreams"),
    model("review", "\"ollama/NAME\"", "another model that reviews conversations"),
    model("recall", "\"openai/NAME\"", "a model that chooses what is recalled, for each prompt"),
    choice("fallback", "\"none\"", &["none", "rules"], "who does what a model fails to do"),
    number(
        "background_tokens",
        "1000000",
        (0, SETTING_COUNT_MAX),
        "tokens that models may take in a day for work that nobody asked for",
    ),
];

const EMBEDDINGS: &[KnownSetting] = &[
    model("url", "\"http://localhost/v1\"", "texts are sent to URL/embeddings"),
    model("model", "\"NAME\"", "which model makes them"),
    model("key_variable", "\"NAME\"", "the variable of the environment that holds the key"),
    number(
        "timeout_ms",
        "2000",
        (1, EMBED_WAIT_MAX.as_secs() * 1_000),
        "how long a prompt's vector is waited for",
    )
    .only_in_file(),
    number("batch", "32", (1, EMBED_BATCH_MAX as u64), "how many entries are sent at once")
        .only_in_file(),
    switch("beyond_this_machine", "false", "whether an http:// url may lead to another machine")
        .only_in_file(),
];

const SCREENING: &[KnownSetting] =
    &[list("allowed", "[]", "SHA-256 digests of texts that are let through")];

const PROVIDERS: &str = "\
[models.providers.work]         models of it are named like \"work/NAME\"
  api = \"openai\"                  or \"openai-responses\", \"anthropic\", \"gemini\"
  url = \"https://host/v1\"         where it is
  key_command = [\"pass\", \"x\"]     prints the key; or key_variable names the variable that holds it
  beyond_this_machine = false     whether an http:// url may lead to another machine";

const FEATURES: &str = "\
[features]
  recall = true                   what is on: `lukasa features` lists all
  [workspace.\"ID\".features]
  recall = false                  what is off in one workspace";

/// What the help says at the end.
const POLICIES: &str = "  [screening.policies]
  secrets = \"refuse\"              or \"warn\", \"off\": for a rule, or a family of rules";

/// Returns the settings as the help lists them: such lines could stand in the file, but for the remarks.
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
                ValueKind::Choice([_, others @ ..]) if !others.is_empty() => {
                    let others: Vec<_> = others.iter().map(|word| format!("\"{word}\"")).collect();
                    format!("or {}: ", others.join(", "))
                }
                _ => String::new(),
            };
            line(&format!("{key} = {shown}"), &format!("{others}{meaning}"));
        }
    }
    text + POLICIES
}

/// Returns the first number that is out of its bounds, and where. The text was read as settings before.
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
            let span = item.span().expect("what was parsed has a place");
            Some((span, format!("{full} must be {least} {max}")))
        })
    })
}

//! The settings that there are: what the help lists, and what the page shows and writes.

use memory::limits::{EMBED_BATCH_MAX, EMBED_WAIT_MAX, REVIEW_WAIT_MAX, SCOPE_FILES_MAX};

use super::{
    CHILD_IDLE_SECONDS_MAX, DREAM_EVERY_HOURS_MAX, RETENTION_DAYS_MAX, REVIEW_INTERVAL_MAX,
    TASKS_KEPT_MINUTES_MAX,
};

/// What kind of value a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Switch,
    /// A whole number, from and to.
    Number(u64, u64),
    /// One of these words; the first is the default, if there is one.
    Choice(&'static [&'static str]),
    Text,
    List,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Its table; empty for none.
    pub(crate) table: &'static str,
    /// Its key there.
    pub(crate) key: &'static str,
    /// What the help shows as its value, as the file has it.
    pub(crate) shown: &'static str,
    /// Whether that is the default; if not, nothing is.
    pub(crate) is_default: bool,
    pub(crate) kind: Kind,
    pub(crate) meaning: &'static str,
    /// Why only the file sets it, if that is so.
    pub(crate) only_in_file: Option<&'static str>,
}

/// Texts of memories go to where these say.
const SENDS_TEXTS: Option<&str> =
    Some("It decides where texts of memories are sent, so only the file sets it.");

const fn known(
    table: &'static str,
    key: &'static str,
    shown: &'static str,
    kind: Kind,
    meaning: &'static str,
) -> Known {
    Known { table, key, shown, is_default: true, kind, meaning, only_in_file: None }
}

const fn example(
    table: &'static str,
    key: &'static str,
    shown: &'static str,
    kind: Kind,
    meaning: &'static str,
) -> Known {
    Known { is_default: false, ..known(table, key, shown, kind, meaning) }
}

const fn sends(key: &'static str, shown: &'static str, kind: Kind, meaning: &'static str) -> Known {
    Known { only_in_file: SENDS_TEXTS, ..example("embeddings", key, shown, kind, meaning) }
}

const fn model(key: &'static str, shown: &'static str, meaning: &'static str) -> Known {
    Known { only_in_file: SENDS_TEXTS, ..example("models", key, shown, Kind::Text, meaning) }
}

/// The settings that have a fixed name, in the order of the help. Features and screening policies come beside them.
pub(crate) const KNOWN: &[Known] = &[
    known(
        "",
        "files_max",
        "1000",
        Kind::Number(1, SCOPE_FILES_MAX as u64),
        "memories that a scope may hold",
    ),
    known(
        "",
        "memory_list",
        "true",
        Kind::Switch,
        "keep a MEMORY.md listing in global and workspace roots",
    ),
    known(
        "",
        "project_root",
        "\"repo\"",
        Kind::Choice(&["repo", "host"]),
        "where project memories lie",
    ),
    example(
        "",
        "runner",
        "\"child\"",
        Kind::Choice(&["in_process", "child"]),
        "where tasks are done; else in a child of the daemon once a model does them",
    ),
    known(
        "",
        "child_idle_seconds",
        "60",
        Kind::Number(0, CHILD_IDLE_SECONDS_MAX as u64),
        "how long after its last task a child is stopped",
    ),
    known(
        "",
        "memory_review_interval",
        "0",
        Kind::Number(0, REVIEW_INTERVAL_MAX),
        "review a conversation after so many turns; 0 is never",
    ),
    Known {
        only_in_file: SENDS_TEXTS,
        ..known(
            "",
            "memory_review_model",
            "\"\"",
            Kind::Text,
            "the model that does it, like \"ollama/NAME\"; \"\" for that of [models]",
        )
    },
    known(
        "",
        "memory_review_timeout",
        "30",
        Kind::Number(1, REVIEW_WAIT_MAX.as_secs()),
        "seconds that a review may take",
    ),
    known(
        "",
        "memory_review_verbose",
        "false",
        Kind::Switch,
        "whether you are told of what a review saved",
    ),
    known(
        "retention",
        "days",
        "90",
        Kind::Number(0, RETENTION_DAYS_MAX as u64),
        "how long history is kept",
    ),
    known(
        "retention",
        "mib",
        "256",
        Kind::Number(0, u32::MAX as u64),
        "how much of earlier contents is kept",
    ),
    known(
        "tasks",
        "kept_minutes",
        "60",
        Kind::Number(1, TASKS_KEPT_MINUTES_MAX as u64),
        "how long a task that is over can be asked for",
    ),
    known(
        "dream",
        "schedule",
        "false",
        Kind::Switch,
        "whether the daemon dreams although nobody asks",
    ),
    known(
        "dream",
        "every_hours",
        "24",
        Kind::Number(1, DREAM_EVERY_HOURS_MAX as u64),
        "how long after the last dream",
    ),
    known(
        "dream",
        "after_sessions",
        "5",
        Kind::Number(0, u32::MAX as u64),
        "after how many sessions since",
    ),
    example(
        "context",
        "file_names",
        "[\"AGENTS.md\"]",
        Kind::List,
        "names of context files; else QWEN.md, then AGENTS.md",
    ),
    example(
        "context",
        "profile",
        "\"qwen\"",
        Kind::Choice(&["qwen"]),
        "load those of ~/.qwen and of a project's .qwen too",
    ),
    example(
        "context",
        "include",
        "[\"~/rules\"]",
        Kind::List,
        "folders whose context files are loaded, and imported from",
    ),
    example("context", "files", "[\"~/me.md\"]", Kind::List, "further context files"),
    known(
        "context",
        "imports",
        "\"tree\"",
        Kind::Choice(&["tree", "flat"]),
        "texts stay, imported files follow",
    ),
    model("default", "\"ollama/NAME\"", "the model that remembers, forgets, dreams and reviews"),
    model("remember", "\"anthropic/NAME\"", "another model that remembers; \"rules\" for none"),
    model("forget", "\"rules\"", "another model that forgets"),
    model("dream", "\"openai/NAME\"", "another model that dreams"),
    model("review", "\"ollama/NAME\"", "another model that reviews conversations"),
    model("recall", "\"openai/NAME\"", "a model that chooses what is recalled, for each prompt"),
    known(
        "models",
        "fallback",
        "\"none\"",
        Kind::Choice(&["none", "rules"]),
        "who does what a model fails to do",
    ),
    known(
        "models",
        "background_tokens",
        "1000000",
        Kind::Number(0, u32::MAX as u64),
        "tokens that models may take in a day for work that nobody asked for",
    ),
    sends("url", "\"http://localhost/v1\"", Kind::Text, "texts are sent to URL/embeddings"),
    sends("model", "\"NAME\"", Kind::Text, "which model makes them"),
    sends(
        "key_variable",
        "\"NAME\"",
        Kind::Text,
        "the variable of the environment that holds the key",
    ),
    Known {
        only_in_file: SENDS_TEXTS,
        ..known(
            "embeddings",
            "timeout_ms",
            "2000",
            Kind::Number(1, EMBED_WAIT_MAX.as_secs() * 1_000),
            "how long a prompt's vector is waited for",
        )
    },
    Known {
        only_in_file: SENDS_TEXTS,
        ..known(
            "embeddings",
            "batch",
            "32",
            Kind::Number(1, EMBED_BATCH_MAX as u64),
            "how many entries are sent at once",
        )
    },
    Known {
        only_in_file: SENDS_TEXTS,
        ..known(
            "embeddings",
            "beyond_this_machine",
            "false",
            Kind::Switch,
            "whether an http:// url may lead to another machine",
        )
    },
    known(
        "screening",
        "allowed",
        "[]",
        Kind::List,
        "SHA-256 digests of texts that are let through",
    ),
];

/// What the help says beside a table.
const OF_TABLES: &[(&str, &str)] = &[
    ("models", "who does the work of agents: rules, unless a model is named"),
    ("embeddings", "who makes vectors for recall; nobody unless url and model are set"),
];

/// What the help says before `[embeddings]`.
const PROVIDERS: &str = "  [models.providers.work]         models of it are named like \"work/NAME\"
  api = \"openai\"                  or \"openai-responses\", \"anthropic\", \"gemini\"
  url = \"https://host/v1\"         where it is
  key_command = [\"pass\", \"x\"]     prints the key; or key_variable names the variable that holds it
  beyond_this_machine = false     whether an http:// url may lead to another machine
";

/// What the help says before `[screening]`.
const FEATURES: &str = "  [features]
  recall = true                   what is on: `quipu features` lists all
  [workspace.\"ID\".features]
  recall = false                  what is off in one workspace
";

/// What the help says at the end.
const POLICIES: &str = "  [screening.policies]
  secrets = \"refuse\"              or \"warn\", \"off\": for a rule, or a family of rules
";

/// Returns the settings as the help lists them: such lines could stand in the file, but for the remarks.
pub(crate) fn help() -> String {
    let mut text = String::new();
    let mut line = |left: String, remark: &str| {
        let line = format!("  {left:<32}{remark}");
        text.push_str(line.trim_end());
        text.push('\n');
    };
    let mut table = "";
    for known in KNOWN {
        if known.table != table {
            table = known.table;
            let before = match table {
                "embeddings" => PROVIDERS,
                "screening" => FEATURES,
                _ => "",
            };
            if !before.is_empty() {
                line(before.trim().to_owned(), "");
            }
            let of_table = OF_TABLES.iter().find(|(name, _)| *name == table);
            line(format!("[{table}]"), of_table.map_or("", |(_, remark)| remark));
        }
        let others = match known.kind {
            Kind::Choice([_, others @ ..]) if !others.is_empty() => {
                let others: Vec<_> = others.iter().map(|other| format!("\"{other}\"")).collect();
                format!("or {}: ", others.join(", "))
            }
            _ => String::new(),
        };
        line(format!("{} = {}", known.key, known.shown), &format!("{others}{}", known.meaning));
    }
    text + POLICIES.trim_end()
}

//! What `quipu --help` says of settings and of the environment.

/// What may be set, and what is looked at in the environment.
const SETTINGS: &str = "\
Settings, in config.toml in $QUIPU_HOME, or else in the system's folder for them
(~/.config/quipu); each may be left out:
  files_max = 1000              memories that a scope may hold
  memory_list = true            keep a MEMORY.md listing in global and workspace roots
  project_root = \"repo\"         or \"host\": where project memories lie
  [retention]
  days = 90                     how long history is kept
  mib = 256                     how much of earlier contents is kept
  [tasks]
  kept_minutes = 60             how long a task that is over can be asked for
  [dream]
  schedule = false              whether the daemon dreams although nobody asks
  every_hours = 24              how long after the last dream
  after_sessions = 5            after how many sessions since
  [context]
  file_names = [\"AGENTS.md\"]    names of context files; else QWEN.md, then AGENTS.md
  profile = \"qwen\"              load those of ~/.qwen and of a project's .qwen too
  include = [\"~/rules\"]         folders whose context files are loaded, and imported from
  files = [\"~/me.md\"]           further context files
  imports = \"tree\"              or \"flat\": texts stay, imported files follow
  [embeddings]                  who makes vectors for recall; nobody unless url and model are set
  url = \"http://localhost/v1\"   texts are sent to URL/embeddings, without TLS
  model = \"NAME\"                which model makes them
  key_variable = \"NAME\"         the variable of the environment that holds the key
  timeout_ms = 2000             how long a prompt's vector is waited for
  batch = 32                    how many entries are sent at once
  beyond_this_machine = false   whether url may lead to another machine
  [features]
  recall = true                 what is on: `quipu features` lists all
  [workspace.\"ID\".features]
  recall = false                what is off in one workspace
  [screening]
  allowed = []                  SHA-256 digests of texts that are let through
  [screening.policies]
  secrets = \"refuse\"            or \"warn\", \"off\": for a rule, or a family of rules

Environment:
  QUIPU_HOME                    one folder for memories, state and settings
  QUIPU_FEATURES                turns features on and off: -recall,+page
  QUIPU_TOKEN                   the token of the daemon
  VISUAL, EDITOR                the editor of `create` and `edit`
  QUIPU_PAGER, PAGER            the pager; `cat` for none
  NO_COLOR, CLICOLOR, CLICOLOR_FORCE";

/// Returns what stands below the options.
pub(super) fn long_help() -> String {
    format!("{SETTINGS}\n\n{}", crate::exit::HELP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_the_help_are_those_that_are_read() {
        let shown: Vec<_> = SETTINGS
            .lines()
            .skip(2)
            .take_while(|line| !line.is_empty())
            // The remark to a setting begins in this column.
            .map(|line| line.get(..32).unwrap_or(line))
            .collect();
        let path = std::path::Path::new("help");
        let read = crate::compose::Settings::parse(&shown.join("\n"), path);
        assert!(read.is_ok(), "{shown:?}");
    }
}

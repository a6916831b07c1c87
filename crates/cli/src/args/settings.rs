//! What `quipu --help` says of settings and of the environment.

/// What is said before the settings.
const SETTINGS: &str = "\
Settings, in config.toml in $QUIPU_HOME, or else in the system's folder for them
(~/.config/quipu); each may be left out:";

/// What is looked at in the environment.
const ENVIRONMENT: &str = "\
Environment:
  QUIPU_HOME                    one folder for memories, state and settings
  QUIPU_FEATURES                turns features on and off: -recall,+page
  QUIPU_TOKEN                   the token of the daemon
  VISUAL, EDITOR                the editor of `create` and `edit`
  QUIPU_PAGER, PAGER            the pager; `cat` for none
  NO_COLOR, CLICOLOR, CLICOLOR_FORCE";

/// Returns what stands below the options.
pub(super) fn long_help() -> String {
    let settings = crate::compose::settings_help();
    format!("{SETTINGS}\n{settings}\n\n{ENVIRONMENT}\n\n{}", crate::exit::HELP)
}

#[cfg(test)]
mod tests {

    #[test]
    fn the_settings_of_the_help_are_those_that_are_read() {
        let text = crate::compose::settings_help();
        let shown: Vec<_> = text
            .lines()
            // The remark to a setting begins in this column.
            .map(|line| line.get(..32).unwrap_or(line))
            .collect();
        let path = std::path::Path::new("help");
        let read = crate::compose::Settings::parse(&shown.join("\n"), path);
        assert!(read.is_ok(), "{shown:?}");
    }
}

//! The commands in groups, as `lukasa` alone and `lukasa help` show them.
//!
//! The parser of the command line can only list commands one after the other. The groups are put into the help when
//! it is shown and not before, so that no other call pays for them.

use clap::builder::StyledStr;
use clap::builder::styling::{Style, Styles};
use clap::{ColorChoice, Command, CommandFactory};

use super::Cli;
use crate::render::text::TextBuffer;
use crate::{app, exit};

/// The commands for other programs.
#[cfg(feature = "child")]
const SERVE: &[&str] = &["ui", "mcp", "acp", "serve", "service", "token", "events"];
#[cfg(not(feature = "child"))]
const SERVE: &[&str] = &["ui", "mcp", "serve", "service", "token", "events"];

/// The commands that look after memories and state.
#[cfg(feature = "cluster")]
const CARE: &[&str] =
    &["status", "features", "models", "runs", "doctor", "import", "export", "migrate", "workspace"];
#[cfg(not(feature = "cluster"))]
const CARE: &[&str] =
    &["status", "features", "models", "runs", "doctor", "import", "export", "workspace"];

/// The groups in reading order, each with its commands.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Read", &["ls", "view", "grep", "recall"]),
    ("Write", &["create", "replace", "insert", "edit", "mv", "rm"]),
    ("Remember", &["remember", "forget", "dream", "pending", "tasks"]),
    ("Context", &["context", "pin", "unpin", "save", "trust", "accept"]),
    ("History", &["log", "show", "diff", "undo"]),
    ("Care", CARE),
    ("Serve", SERVE),
    (
        "Set up",
        &[
            "install",
            "uninstall",
            "encoder",
            "remote",
            "hook",
            "demo",
            "self",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// Five commands to start with, each with its purpose.
const START: [(&str, &str); 5] = [
    ("lukasa install", "set up the agents on this machine"),
    ("lukasa remember 'I prefer tabs'", "store a fact in the memory that fits"),
    ("lukasa ls", "list memories"),
    ("lukasa log", "list changes and their authors"),
    ("lukasa undo", "undo the last change"),
];

/// Returns the grammar; help and errors are colored as `--color` in the command line `words` demands.
pub(crate) fn grammar(words: impl Iterator<Item = std::ffi::OsString>) -> Command {
    Cli::command().color(color(words))
}

/// Returns the value of `--color` before the command line is parsed, since it also applies to parse errors.
pub(crate) fn color(words: impl Iterator<Item = std::ffi::OsString>) -> ColorChoice {
    let mut choice = ColorChoice::Auto;
    let mut words = words.take_while(|word| word != "--");
    while let Some(word) = words.next() {
        let word = word.to_string_lossy();
        let when = match word.strip_prefix("--color=") {
            Some(when) => when.to_owned(),
            None if word == "--color" => match words.next() {
                Some(when) => when.to_string_lossy().into_owned(),
                None => break,
            },
            None => continue,
        };
        choice = when.parse().unwrap_or(choice);
    }
    choice
}

/// Returns the output of `lukasa` alone: first steps, and the names of the commands.
pub(crate) fn overview(heading: Style) -> String {
    let grammar = Cli::command();
    let about = grammar.get_about().expect("the program says what it is for");
    let mut text = TextBuffer::default();
    text.line(format_args!("{about}\n\n{heading}Start:{heading:#}"));
    for (command, what) in START {
        text.line(format_args!("  {command:<33}{what}"));
    }
    text.line(format_args!("\n{heading}Commands:{heading:#}"));
    for (group, commands) in GROUPS {
        text.line(format_args!("  {group:<12}{}", commands.join("  ")));
    }
    text.line("\n`lukasa help` describes each command, `lukasa help COMMAND` shows examples.");
    text.into_string()
}

/// Returns the help of the program with its commands in groups, if `shown` is that help.
pub(crate) fn grouped(shown: &clap::Error, mut grammar: Command) -> Option<StyledStr> {
    let text = shown.render().to_string();
    grammar.build();
    let is_short = grammar.render_help().to_string() == text;
    if !is_short && grammar.render_long_help().to_string() != text {
        return None;
    }
    let mut grammar = with_groups(grammar);
    Some(if is_short { grammar.render_help() } else { grammar.render_long_help() })
}

/// Returns a grammar whose help lists the commands in groups. It is for help alone.
pub(crate) fn with_groups(grammar: Command) -> Command {
    let styles = Styles::styled();
    let usage = styles.get_usage();
    let groups: String = GROUPS.iter().map(|group| group_text(&grammar, group, &styles)).collect();
    let template = format!(
        "{{about-with-newline}}\n{usage}Usage:{usage:#} lukasa [OPTIONS] [COMMAND]\n\n{groups}{{all-args}}{{after-help}}"
    );
    // Hidden, or clap would list them again below the groups.
    grammar.mut_subcommands(|command| command.hide(true)).help_template(template)
}

fn group_text(grammar: &Command, (group, names): &(&str, &[&str]), styles: &Styles) -> String {
    let (heading, literal) = (styles.get_header(), styles.get_literal());
    let mut text = TextBuffer::default();
    text.line(format_args!("{heading}{group}:{heading:#}"));
    for name in *names {
        // The grammar of the generated reference has no `help` command.
        let Some(command) = grammar.find_subcommand(name) else { continue };
        let about = command.get_about().expect("every command says what it is for");
        text.line(format_args!("  {literal}{name:<11}{literal:#}  {about}"));
    }
    text.line("");
    text.into_string()
}

/// The heading of the settings in the long help.
const SETTINGS: &str = "\
Settings, in config.toml in $LUKASA_HOME, or else in the system's configuration folder
(~/.config/lukasa); each is optional:";

/// The environment variables in the long help.
const ENVIRONMENT: &str = "\
Environment:
  LUKASA_HOME                    one folder for memories, state and settings
  LUKASA_FEATURES                turns features on and off: -recall,+page
  LUKASA_TOKEN                   token of the daemon
  VISUAL, EDITOR                 editor of `create` and `edit`
  LUKASA_PAGER, PAGER            pager; `cat` for none
  NO_COLOR, CLICOLOR, CLICOLOR_FORCE";

/// Returns the text below the options: settings, environment, exit statuses.
pub(super) fn long_help() -> String {
    let settings = app::settings_help();
    format!("{SETTINGS}\n{settings}\n\n{ENVIRONMENT}\n\n{}", exit::help())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_the_help_are_those_that_are_read() {
        let text = app::settings_help();
        let shown: Vec<_> = text
            .lines()
            // The remark to a setting begins in this column.
            .map(|line| line.get(..32).unwrap_or(line))
            .collect();
        let path = std::path::Path::new("help");
        let read = app::ParsedSettings::parse(&shown.join("\n"), path);
        assert!(read.is_ok(), "{shown:?}");
    }

    #[test]
    fn every_command_is_in_one_group() {
        let mut grammar = Cli::command();
        grammar.build();
        let commands = grammar.get_subcommands().filter(|command| !command.is_hide_set());
        let mut commands: Vec<_> = commands.map(Command::get_name).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        commands.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, commands);
    }

    #[test]
    fn every_start_command_parses() {
        for (command, _) in START {
            let words = command.split(' ').map(|word| word.trim_matches('\''));
            let matches = Cli::command().ignore_errors(true).try_get_matches_from(words);
            assert!(matches.is_ok_and(|matches| matches.subcommand().is_some()), "{command}");
        }
    }

    #[test]
    fn the_last_choice_of_color_holds() {
        fn check(line: &str, expected: ColorChoice) {
            assert_eq!(color(line.split(' ').map(Into::into)), expected, "{line}");
        }
        check("lukasa ls", ColorChoice::Auto);
        check("lukasa --color always ls", ColorChoice::Always);
        check("lukasa ls --color=never", ColorChoice::Never);
        check("lukasa --color always ls --color never", ColorChoice::Never);
        check("lukasa ls --color", ColorChoice::Auto);
        check("lukasa ls --color=blue", ColorChoice::Auto);
        check("lukasa create a -- --color=always", ColorChoice::Auto);
    }
}

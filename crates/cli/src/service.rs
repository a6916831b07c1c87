//! Service definitions of the daemon: a user unit for systemd, an agent for launchd.
//!
//! This module only builds texts and names; it writes no files. The service runs for one user, without special rights.
//! The unit of systemd restricts it further: no new privileges, no other address families, no code generated at run
//! time.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use memory::limits::{
    DRAIN_WAIT, FILES_KEPT_FREE, HTTP_CONNECTIONS_MAX, HTTP_SHUTDOWN_WAIT, MCP_SHUTDOWN_WAIT,
    TASK_STOP_WAIT,
};

use crate::exit::{Failure, Status};
use crate::render::text;

/// The name of the service.
pub(crate) const NAME: &str = "lukasa";

/// The mark by which a file written by `lukasa service install` is recognized.
const MARK: &str = "Written by `lukasa service install`";

/// A service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InitSystem {
    /// Service manager of most Linux systems
    Systemd,
    /// Service manager of macOS
    Launchd,
}

/// The daemon as a service.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The absolute path of the program.
    pub(crate) program: PathBuf,
    /// The arguments after `serve`.
    pub(crate) args: Vec<String>,
    /// The working directory: relative paths and the project are resolved from here.
    pub(crate) folder: PathBuf,
    /// The environment variables that set the folders of memories.
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
    /// The log file of launchd; systemd has its journal.
    pub(crate) log: PathBuf,
}

impl InitSystem {
    /// Returns the path of the service file, from the home folder and the configuration folder.
    pub(crate) fn file(self, home: &Path, config: &Path) -> PathBuf {
        match self {
            Self::Systemd => config.join("systemd/user").join(format!("{NAME}.service")),
            Self::Launchd => home.join("Library/LaunchAgents").join(format!("{NAME}.plist")),
        }
    }

    /// Returns the link by which systemd starts the service at login; launchd has none.
    pub(crate) fn link(self, file: &Path) -> Option<PathBuf> {
        let name = file.file_name()?;
        match self {
            Self::Systemd => Some(file.parent()?.join("default.target.wants").join(name)),
            Self::Launchd => None,
        }
    }

    /// Returns the text of the service file.
    pub(crate) fn text(self, service: &Service) -> Result<String, Failure> {
        match self {
            Self::Systemd => unit(service),
            Self::Launchd => agent(service),
        }
    }

    /// Returns the steps after the file is written: commands and their effects.
    pub(crate) fn steps_to_start(self, file: &Path, log: &Path) -> Vec<(String, &'static str)> {
        match self {
            Self::Systemd => vec![
                ("systemctl --user daemon-reload".to_owned(), "makes systemd read the file"),
                (
                    format!("systemctl --user enable --now {NAME}"),
                    "starts the daemon, now and at each login",
                ),
                (format!("systemctl --user status {NAME}"), "shows its status"),
                (format!("journalctl --user -u {NAME} -f"), "shows its log"),
                ("loginctl enable-linger".to_owned(), "keeps it running while you are logged out"),
            ],
            Self::Launchd => vec![
                (
                    format!("launchctl bootstrap gui/$(id -u) {}", quoted_path(file)),
                    "starts the daemon, now and at each login",
                ),
                (format!("launchctl print gui/$(id -u)/{NAME}"), "shows its status"),
                (format!("tail -f {}", quoted_path(log)), "shows its log"),
            ],
        }
    }

    /// Returns the steps after the file is removed: commands and their effects.
    pub(crate) fn steps_to_end(self) -> Vec<(String, &'static str)> {
        match self {
            Self::Systemd => vec![
                (format!("systemctl --user stop {NAME}"), "stops the daemon, if it runs"),
                ("systemctl --user daemon-reload".to_owned(), "makes systemd forget the file"),
            ],
            Self::Launchd => {
                let step = format!("launchctl bootout gui/$(id -u)/{NAME}");
                vec![(step, "stops the daemon, if it runs")]
            }
        }
    }
}

/// Checks whether a service file was written by Lukasa.
pub(crate) fn is_ours(text: &str) -> bool {
    text.contains(MARK)
}

/// Returns the maximum time of a shutdown: draining and stopping tasks, calls over MCP, HTTP connections, and some
/// seconds for the final writes.
const fn stop_timeout_seconds() -> u64 {
    DRAIN_WAIT.as_secs()
        + 2 * TASK_STOP_WAIT.as_secs()
        + MCP_SHUTDOWN_WAIT.as_secs()
        + HTTP_SHUTDOWN_WAIT.as_secs()
        + 8
}

/// Returns the maximum number of open files.
const fn open_files_max() -> usize {
    HTTP_CONNECTIONS_MAX + FILES_KEPT_FREE
}

/// Returns the unit of systemd. Restrictions of the file system and of the umask are left out: memories are in the
/// folders of projects, and their files get the modes of the user's umask.
fn unit(service: &Service) -> Result<String, Failure> {
    let mut start = quoted(text_of(&service.program)?);
    for arg in ["serve"].into_iter().chain(service.args.iter().map(String::as_str)) {
        let arg = quoted(checked_text(arg)?).replace('$', "$$");
        start = format!("{start} {arg}");
    }
    let mut environment = String::new();
    for (name, value) in &service.environment {
        let pair = quoted(&format!("{name}={}", text_of(value)?));
        // Writing to a string cannot fail.
        let _written = writeln!(environment, "Environment={pair}");
    }
    let folder = text_of(&service.folder)?;
    if folder.ends_with(|last: char| last == '\\' || last.is_whitespace()) {
        // systemd does not unquote this value: a backslash would join the next line, white space would be cut off.
        return Err(invalid_path_error(folder));
    }
    let folder = folder.replace('%', "%%");
    let (seconds, files, usage) = (stop_timeout_seconds(), open_files_max(), Status::Usage as u8);
    Ok(format!(
        "# {MARK}; `systemctl --user edit {NAME}` adds to it.
[Unit]
Description=Lukasa, a memory for AI agents

[Service]
Type=exec
ExecStart={start}
WorkingDirectory={folder}
{environment}Restart=on-failure
RestartSec=5
RestartPreventExitStatus={usage}
KillMode=mixed
TimeoutStopSec={seconds}
LimitNOFILE={files}
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service

[Install]
WantedBy=default.target
"
    ))
}

/// Returns the agent of launchd.
fn agent(service: &Service) -> Result<String, Failure> {
    let mut words = vec![text_of(&service.program)?, "serve"];
    words.extend(service.args.iter().map(String::as_str));
    let mut arguments = String::new();
    for word in words {
        let _written = write!(arguments, "\n    <string>{}</string>", escaped(checked_text(word)?));
    }
    let mut environment = String::new();
    for (name, value) in &service.environment {
        let value = escaped(text_of(value)?);
        let _written = write!(environment, "\n    <key>{name}</key>\n    <string>{value}</string>");
    }
    let (folder, log) = (escaped(text_of(&service.folder)?), escaped(text_of(&service.log)?));
    let (seconds, files) = (stop_timeout_seconds(), open_files_max());
    Ok(format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {MARK}. -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{NAME}</string>
  <key>ProgramArguments</key>
  <array>{arguments}
  </array>
  <key>WorkingDirectory</key>
  <string>{folder}</string>
  <key>EnvironmentVariables</key>
  <dict>{environment}
  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ProcessType</key>
  <string>Background</string>
  <key>ExitTimeOut</key>
  <integer>{seconds}</integer>
  <key>SoftResourceLimits</key>
  <dict>
    <key>NumberOfFiles</key>
    <integer>{files}</integer>
  </dict>
  <key>StandardOutPath</key>
  <string>{log}</string>
  <key>StandardErrorPath</key>
  <string>{log}</string>
</dict>
</plist>
"#
    ))
}

/// Returns a path as text; an error if a service file cannot hold it.
fn text_of(path: &Path) -> Result<&str, Failure> {
    let shown = || path.display().to_string();
    let text = path.to_str().ok_or_else(|| invalid_path_error(&shown()))?;
    checked_text(text)
}

/// Returns the text; an error if it has line breaks or other control characters.
fn checked_text(text: &str) -> Result<&str, Failure> {
    if text.chars().any(char::is_control) { Err(invalid_path_error(text)) } else { Ok(text) }
}

fn invalid_path_error(text: &str) -> Failure {
    Failure::usage(format!("a service file cannot hold {text:?}"))
        .help("use paths and arguments without control characters")
}

/// Returns one word quoted for systemd, with its special characters escaped.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{text}\"")
}

/// Returns a text escaped for XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn quoted_path(path: &Path) -> String {
    text::quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(program: &str, args: &[&str]) -> Service {
        Service {
            program: program.into(),
            args: args.iter().map(ToString::to_string).collect(),
            folder: "/home/me/100% mine".into(),
            environment: vec![("LUKASA_HOME", "/home/me/a \"b\"".into())],
            log: "/home/me/state/daemon.log".into(),
        }
    }

    fn line<'a>(text: &'a str, key: &str) -> &'a str {
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap()
    }

    #[test]
    fn paths_and_arguments_are_escaped_for_systemd() {
        let service = service("/opt/q u/lukasa", &["--workspace", "/a $b %c \\d", "--no-tasks"]);
        let unit = InitSystem::Systemd.text(&service).unwrap();
        assert_eq!(
            line(&unit, "ExecStart="),
            r#""/opt/q u/lukasa" "serve" "--workspace" "/a $$b %%c \\d" "--no-tasks""#
        );
        assert_eq!(line(&unit, "WorkingDirectory="), "/home/me/100%% mine");
        assert_eq!(line(&unit, "Environment="), r#""LUKASA_HOME=/home/me/a \"b\"""#);
        assert!(is_ours(&unit));
    }

    #[test]
    fn line_breaks_in_paths_and_arguments_are_refused() {
        for manager in [InitSystem::Systemd, InitSystem::Launchd] {
            assert!(manager.text(&service("/a\nExecStartPre=/bin/evil", &[])).is_err());
            assert!(manager.text(&service("/a", &["--workspace", "a\nb"])).is_err());
        }
    }

    #[test]
    fn paths_are_escaped_for_xml() {
        let agent = InitSystem::Launchd.text(&service("/a<b>&c", &[])).unwrap();
        assert!(agent.contains("\n    <string>/a&lt;b&gt;&amp;c</string>"), "{agent}");
        assert!(is_ours(&agent));
    }
}

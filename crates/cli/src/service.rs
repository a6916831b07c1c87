//! What the system's service manager is told about the daemon: a user unit for systemd, an agent for launchd.
//!
//! Only texts and names are made here. They are written for one person, without special rights, and bind
//! the daemon to what it does: it needs no new privileges, no other address families, no code that is
//! made while it runs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use memory::limits::{
    DRAIN_WAIT, FILES_KEPT_FREE, HTTP_CONNECTIONS_MAX, HTTP_SHUTDOWN_WAIT, MCP_SHUTDOWN_WAIT,
    TASK_STOP_WAIT,
};

use crate::exit::{Failure, Status};
use crate::render::text;

/// What the service is called.
pub(crate) const NAME: &str = "lukasa";

/// How a text that was written here says so.
const MARK: &str = "Written by `lukasa service install`";

/// Who starts services on a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InitSystem {
    /// Of most Linux systems
    Systemd,
    /// Of macOS
    Launchd,
}

/// The daemon as a service.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The program, by its whole path.
    pub(crate) program: PathBuf,
    /// What it is called with after `serve`.
    pub(crate) args: Vec<String>,
    /// Where it runs: relative paths and the project count from here.
    pub(crate) folder: PathBuf,
    /// What of the environment says where memories lie.
    pub(crate) environment: Vec<(&'static str, PathBuf)>,
    /// Where launchd puts what it says; systemd has its journal.
    pub(crate) log: PathBuf,
}

impl InitSystem {
    /// Returns the one of this system, if it is known.
    pub(crate) const fn current() -> Option<Self> {
        if cfg!(target_os = "linux") {
            Some(Self::Systemd)
        } else if cfg!(target_os = "macos") {
            Some(Self::Launchd)
        } else {
            None
        }
    }

    /// Returns the service's file, from the home folder and the one for settings.
    pub(crate) fn file(self, home: &Path, config: &Path) -> PathBuf {
        match self {
            Self::Systemd => config.join("systemd/user").join(format!("{NAME}.service")),
            Self::Launchd => home.join("Library/LaunchAgents").join(format!("{NAME}.plist")),
        }
    }

    /// Returns the link by which systemd starts the service when the person logs in; launchd has none.
    pub(crate) fn link(self, file: &Path) -> Option<PathBuf> {
        let name = file.file_name()?;
        match self {
            Self::Systemd => Some(file.parent()?.join("default.target.wants").join(name)),
            Self::Launchd => None,
        }
    }

    /// Returns the text of the service's file.
    pub(crate) fn text(self, service: &Service) -> Result<String, Failure> {
        match self {
            Self::Systemd => unit(service),
            Self::Launchd => agent(service),
        }
    }

    /// Returns what to do after the file is written: command and reason.
    pub(crate) fn steps_to_start(self, file: &Path, log: &Path) -> Vec<(String, &'static str)> {
        match self {
            Self::Systemd => vec![
                ("systemctl --user daemon-reload".to_owned(), "systemd reads the file"),
                (
                    format!("systemctl --user enable --now {NAME}"),
                    "starts it, now and at each login",
                ),
                (format!("systemctl --user status {NAME}"), "shows how it is"),
                (format!("journalctl --user -u {NAME} -f"), "shows what it says"),
                ("loginctl enable-linger".to_owned(), "lets it run while you are not logged in"),
            ],
            Self::Launchd => vec![
                (
                    format!("launchctl bootstrap gui/$(id -u) {}", quoted_path(file)),
                    "starts it, now and at each login",
                ),
                (format!("launchctl print gui/$(id -u)/{NAME}"), "shows how it is"),
                (format!("tail -f {}", quoted_path(log)), "shows what it says"),
            ],
        }
    }

    /// Returns what to do after the file is removed.
    pub(crate) fn steps_to_end(self) -> Vec<(String, &'static str)> {
        match self {
            Self::Systemd => vec![
                (format!("systemctl --user stop {NAME}"), "ends it, if it runs"),
                ("systemctl --user daemon-reload".to_owned(), "systemd forgets the file"),
            ],
            Self::Launchd => {
                vec![(format!("launchctl bootout gui/$(id -u)/{NAME}"), "ends it, if it runs")]
            }
        }
    }
}

/// Tells whether a text is one of those that are written here.
pub(crate) fn is_ours(text: &str) -> bool {
    text.contains(MARK)
}

/// How long the daemon may take to end: its tasks and what stops them, calls over MCP, its connections, and a
/// little for what is left to write.
const fn stop_timeout_seconds() -> u64 {
    DRAIN_WAIT.as_secs()
        + 2 * TASK_STOP_WAIT.as_secs()
        + MCP_SHUTDOWN_WAIT.as_secs()
        + HTTP_SHUTDOWN_WAIT.as_secs()
        + 8
}

/// How many files it may have open.
const fn open_files_max() -> usize {
    HTTP_CONNECTIONS_MAX + FILES_KEPT_FREE
}

/// The unit of systemd. What would need a file system of its own is left out: memories lie wherever
/// projects do, and their files have the modes that the person's umask gives them.
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
        // systemd reads the rest of the line as it is: this would join the next one, or be cut off.
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

/// The agent of launchd.
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

/// Returns a path as text that a service file can hold.
fn text_of(path: &Path) -> Result<&str, Failure> {
    let shown = || path.display().to_string();
    let text = path.to_str().ok_or_else(|| invalid_path_error(&shown()))?;
    checked_text(text)
}

/// Returns a text that has no line breaks and other control characters.
fn checked_text(text: &str) -> Result<&str, Failure> {
    if text.chars().any(char::is_control) { Err(invalid_path_error(text)) } else { Ok(text) }
}

fn invalid_path_error(text: &str) -> Failure {
    Failure::usage(format!("{text:?} cannot stand in the file of a service"))
        .help("use paths and words of plain text")
}

/// Returns one word as systemd reads it: without meaning for its own signs.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{text}\"")
}

/// Returns a text as XML has it.
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
    fn nothing_in_a_path_or_word_means_anything_to_systemd() {
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
    fn what_would_begin_a_line_of_its_own_is_refused() {
        for manager in [InitSystem::Systemd, InitSystem::Launchd] {
            assert!(manager.text(&service("/a\nExecStartPre=/bin/evil", &[])).is_err());
            assert!(manager.text(&service("/a", &["--workspace", "a\nb"])).is_err());
        }
    }

    #[test]
    fn nothing_in_a_path_is_taken_for_xml() {
        let agent = InitSystem::Launchd.text(&service("/a<b>&c", &[])).unwrap();
        assert!(agent.contains("\n    <string>/a&lt;b&gt;&amp;c</string>"), "{agent}");
        assert!(is_ours(&agent));
    }
}

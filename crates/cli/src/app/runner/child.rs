//! The runner that starts child processes for tasks: their program, their environment, and their end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Runner};
use memory::feature::Feature;
use server::acp::{ChildRunner, ChildSettings};

use super::RunnerConfig;
use crate::app::{folder_variables, variable};
use crate::files;

/// A pool of child processes; idle ones wait for the next task.
#[derive(Clone, Debug)]
pub(super) struct Children(ChildRunner);

impl Children {
    /// Creates the pool from the settings; `None` if the feature is off.
    pub(super) fn new(runners: &RunnerConfig, engine: &Engine) -> Option<Self> {
        if !engine.switches().global().has(Feature::Child) {
            return None;
        }
        let mut settings = ChildSettings::new(program()?, env!("CARGO_PKG_VERSION"));
        settings.environment = environment(runners);
        settings.is_costly = !engine.models().is_empty();
        settings.review_wait = engine.review().wait;
        if let Some(seconds) = runners.idle_seconds {
            settings.idle_wait = Duration::from_secs(seconds.into());
        }
        Some(Self(ChildRunner::new(settings)))
    }

    /// Returns the runner that uses the pool.
    pub(super) fn runner(&self) -> Arc<dyn Runner> {
        Arc::new(self.0.clone())
    }

    /// Stops all children.
    pub(super) async fn close(&self) {
        self.0.close().await;
    }
}

/// Returns the environment of a child: variables for folders and connections, and the keys that it uses. It must not
/// get anything else, especially not the token of the daemon.
fn environment(runners: &RunnerConfig) -> Vec<(OsString, OsString)> {
    let mut names: Vec<&str> = PASSED_VARIABLES.to_vec();
    names.extend(runners.key_variables.iter().map(String::as_str));
    if runners.has_key_command {
        names.extend(PASSED_FOR_KEY_COMMANDS);
    }
    let mut environment: Vec<(OsString, OsString)> =
        names.into_iter().filter_map(|name| Some((name.into(), variable(name)?))).collect();
    // These are absolute paths, since a child works in another folder.
    let folders = folder_variables().into_iter();
    environment.extend(folders.map(|(name, folder)| (name.into(), folder.into_os_string())));
    environment
}

/// Returns the running program. The file at its path may be another version by now.
fn program() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if files::real_path(&running).is_ok() {
        return Some(running);
    }
    std::env::current_exe().ok()
}

/// Variables that a child may need: user, folders, locale, and proxies.
const PASSED_VARIABLES: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "TZDIR",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_TIME",
    "LUKASA_FEATURES",
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Variables by which password managers find their stores and agents.
const PASSED_FOR_KEY_COMMANDS: &[&str] = &[
    "SHELL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "SSH_AUTH_SOCK",
    "GNUPGHOME",
    "GPG_TTY",
    "PASSWORD_STORE_DIR",
    "PASSWORD_STORE_GPG_OPTS",
];

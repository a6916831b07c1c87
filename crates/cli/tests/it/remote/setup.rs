//! A machine with a checkout, and homes here whose settings reach it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use memory::document::Revision;
use serde_json::Value;
use testkit::eventually;
use testkit::sshd::{SshServer, SshServerOptions};
use testkit::tcp_proxy::TcpProxy;

use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

/// The address of the checkout there.
pub(super) const ADDRESS: &str = "ssh://far/~/shop";

/// A machine with a checkout, and a home here whose settings reach it.
pub(super) struct RemoteSetup {
    pub(super) server: SshServer,
    pub(super) place: Sandbox,
}

impl RemoteSetup {
    /// Starts a machine that has the program.
    pub(super) fn installed() -> Self {
        Self::start(vec![program_folder()])
    }

    /// Starts a machine that has the program, and a checkout without memories.
    pub(super) fn empty() -> Self {
        let setup = Self::installed();
        fs::remove_file(setup.memory("deploy.md")).unwrap();
        setup
    }

    /// Starts a machine. The program is installed there if `path_dirs` has its folder.
    pub(super) fn start(path_dirs: Vec<PathBuf>) -> Self {
        let options = SshServerOptions { max_sessions: Some(1), path_dirs };
        let server = SshServer::start(&options).unwrap();
        fs::create_dir_all(server.home().join("shop/.git")).unwrap();
        let place = Sandbox::with(&[("global/tea.md", "- Bea drinks tea.\n")]);
        let setup = Self { server, place };
        fs::create_dir_all(setup.root()).unwrap();
        fs::write(setup.memory("deploy.md"), "- Deploys run at noon.\n").unwrap();
        setup.use_client_config(setup.server.client_config());
        setup
    }

    pub(super) fn use_client_config(&self, file: &Path) {
        write_settings(&self.place, file, "");
    }

    /// Puts a proxy between both machines.
    pub(super) fn proxy(&self) -> TcpProxy {
        let proxy = TcpProxy::start(self.server.port()).unwrap();
        self.use_client_config(&self.server.client_config_through(proxy.port()).unwrap());
        proxy
    }

    /// Returns another home here, as that of another machine.
    pub(super) fn another_home(&self) -> Sandbox {
        let place = Sandbox::new();
        write_settings(&place, self.server.client_config(), "");
        place
    }

    /// Installs a script there in place of the program.
    pub(super) fn install_script(&self, body: &str) {
        let folder = self.server.home().join(".local/share/lukasa/bin");
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("lukasa");
        fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// Returns the folder of the memories there.
    pub(super) fn root(&self) -> PathBuf {
        self.server.home().join("shop/.lukasa/memory")
    }

    pub(super) fn memory(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Starts an MCP server here for the project.
    pub(super) fn serve(&self) -> McpServerProcess {
        serve(&self.place)
    }

    /// Prepares the program to run on that machine, in the checkout.
    pub(super) fn command_there(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lukasa"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.server.home())
            .current_dir(self.server.home().join("shop"))
            .args(args);
        command
    }

    pub(super) fn run_ok(&self, args: &[&str]) -> String {
        run_ok(&self.place, args)
    }

    /// Returns the errors of a command that fails.
    pub(super) fn fails(&self, args: &[&str]) -> String {
        let ended = self.place.run(&[&["--project", ADDRESS], args].concat());
        assert_ne!(ended.status, 0, "{}", ended.stdout);
        ended.stderr
    }

    /// Returns the processes there that serve projects.
    pub(super) fn backends(&self) -> BTreeSet<u32> {
        let is_backend = |id: &u32| {
            let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            words.ends_with(b"\0backend\0--stdio\0")
        };
        self.server.processes().into_iter().filter(is_backend).collect()
    }

    /// Returns the only process there that serves projects, once it is the only one.
    pub(super) fn backend(&self) -> u32 {
        eventually(|| {
            let backends = self.backends();
            if backends.len() == 1 {
                Ok(backends.into_iter().next().unwrap())
            } else {
                Err(backends)
            }
        })
    }

    /// Waits until no connection is left, on neither side.
    pub(super) fn wait_until_unused(&self) {
        eventually(|| {
            let left = (self.clients(), self.backends());
            if left.0.is_empty() && left.1.is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// Returns the `ssh` processes here.
    fn clients(&self) -> BTreeSet<u32> {
        let folder = self.server.client_config().parent().unwrap().as_os_str().as_bytes();
        let start = [b"ssh\0-F\0", folder].concat();
        let entries = fs::read_dir("/proc").unwrap();
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_client = |id: &u32| {
            fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|words| words.starts_with(&start))
        };
        ids.filter(is_client).collect()
    }

    /// Returns the text of the lock file of the project; empty if nothing locked it yet.
    pub(super) fn lock_file(&self) -> String {
        let folder = self.server.home().join(".local/state/lukasa/locks");
        let locks = fs::read_dir(folder).into_iter().flatten();
        let texts = locks.map(|lock| fs::read_to_string(lock.unwrap().path()).unwrap());
        texts.collect()
    }

    /// Fails if the state of a home does not fit the files there. Returns its changes, the oldest first.
    pub(super) fn check_coherent(&self, place: &Sandbox) -> Vec<Value> {
        check_coherent(&self.root(), &mut |args| run_ok(place, args))
    }

    /// Like [`Self::check_coherent`], of the state on that machine.
    pub(super) fn check_coherent_there(&self) -> Vec<Value> {
        check_coherent(&self.root(), &mut |args| {
            let ended = self.command_there(args).output().unwrap();
            let errors = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{args:?}: {errors}");
            String::from_utf8(ended.stdout).unwrap()
        })
    }
}

/// Starts an MCP server in a home here.
pub(super) fn serve(place: &Sandbox) -> McpServerProcess {
    McpServerProcess::start_as(place.command(&["mcp", "--project", ADDRESS]))
}

/// Runs a command for the project in a home here.
pub(super) fn run_ok(place: &Sandbox, args: &[&str]) -> String {
    place.run_ok(&[&["--project", ADDRESS], args].concat())
}

/// Kills a process as `kill -9` does. It may have ended.
pub(super) fn kill(id: u32) {
    let id = id.to_string();
    let ended = Command::new("kill").args(["-s", "KILL", &id]).output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() || errors.contains("No such process"), "{errors}");
}

/// Writes the settings of a home whose `ssh` uses this configuration. `more` are lines of the table `ssh`.
pub(super) fn write_settings(place: &Sandbox, client_config: &Path, more: &str) {
    let command = format!("command = [\"ssh\", \"-F\", \"{}\"]\n", client_config.display());
    fs::write(place.home().join("config.toml"), format!("[ssh]\n{command}{more}")).unwrap();
}

pub(super) fn program_folder() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_lukasa")).parent().unwrap().to_owned()
}

/// Runs `doctor` and `log`. Each change has to begin with what the change before it left, and the last ones have to be
/// the files.
fn check_coherent(root: &Path, run: &mut dyn FnMut(&[&str]) -> String) -> Vec<Value> {
    let told = run(&["doctor"]);
    assert!(told.starts_with("nothing needs attention\n"), "{told:.2000}");
    let log = run(&["log", "project", "--json", "-n", "100000"]);
    let changes = log.lines().rev().map(|line| serde_json::from_str(line).unwrap());
    let changes: Vec<Value> = changes.collect();
    // The revision of each memory that was named; `None` if it was deleted.
    let mut known: BTreeMap<String, Option<String>> = BTreeMap::new();
    for change in &changes {
        for file in change["files"].as_array().unwrap() {
            let text = |name: &str| file[name].as_str().map(str::to_owned);
            let (path, before) = (text("path").unwrap(), text("before"));
            // What another writer wrote before the first own write may be recorded only as the text before it.
            let left = known.insert(path.clone(), None).unwrap_or_else(|| before.clone());
            assert_eq!(left, before, "{path}: {change}");
            known.insert(text("moved_to").unwrap_or(path), text("after"));
        }
    }
    let known = known.into_iter().filter_map(|(path, after)| Some((path, after?)));
    let files = crate::storm::texts(root).into_iter().map(|(name, text)| {
        let revision = Revision::digest(text.as_bytes()).to_string();
        (format!("/memories/project/{name}"), revision)
    });
    let (known, files): (BTreeMap<_, _>, BTreeMap<_, _>) = (known.collect(), files.collect());
    assert_eq!(known, files, "history and files differ");
    changes
}

//! The sandbox of each test: a temporary home, a checkout, and functions that run commands there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;

/// A temporary home and git checkout.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// The result of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["app", "tmp", "home"] {
            fs::create_dir(place.folder.path().join(name)).unwrap();
        }
        let mut git = place.program("git");
        assert!(git.args(["init", "--quiet"]).status().unwrap().success());
        place
    }

    /// Creates a sandbox with memories, each a path and a text.
    pub(crate) fn with(memories: &[(&str, &str)]) -> Self {
        let place = Self::new();
        for (path, text) in memories {
            place.create(path, text);
        }
        place
    }

    /// Returns the folder of the project.
    pub(crate) fn checkout(&self) -> PathBuf {
        self.folder.path().join("app")
    }

    /// Returns the home: global memories, state and settings.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the folder of temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// Returns the folder that contains everything.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Prepares any program to run here, with a minimal environment.
    pub(crate) fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .env("LUKASA_HOME", self.home())
            .env("TMPDIR", self.temporary())
            .env("TZ", "UTC")
            .current_dir(self.checkout());
        command
    }

    /// Prepares this program to run here.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_lukasa"));
        command.args(args);
        command
    }

    /// Prepares a command line.
    pub(crate) fn lukasa(&self, args: &[&str]) -> assert_cmd::Command {
        assert_cmd::Command::from_std(self.command(args))
    }

    /// Runs a command line to its end.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_command(&mut self.lukasa(args))
    }

    /// Runs a command line with `stdin` as its input.
    pub(crate) fn run_with(&self, args: &[&str], stdin: &str) -> CommandOutput {
        self.run_command(self.lukasa(args).write_stdin(stdin))
    }

    /// Runs a prepared command line to its end.
    pub(crate) fn run_command(&self, command: &mut assert_cmd::Command) -> CommandOutput {
        let output = command.output().unwrap();
        CommandOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: self.stable(&String::from_utf8(output.stdout).unwrap()),
            stderr: self.stable(&String::from_utf8(output.stderr).unwrap()),
        }
    }

    /// Runs a command line that must succeed; returns its output.
    pub(crate) fn run_ok(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!(ended.status, 0, "{args:?}: {}", ended.shown());
        ended.stdout
    }

    /// Creates a memory.
    pub(crate) fn create(&self, path: &str, text: &str) {
        let ended = self.run_with(&["create", path, "-"], text);
        assert_eq!(ended.status, 0, "{path}: {}", ended.stderr);
    }

    /// Fails if `doctor` finds a problem. Mere suggestions, such as repeated entries, are allowed.
    pub(crate) fn check_healthy(&self) {
        let told = self.run_ok(&["doctor"]);
        assert!(told.starts_with("nothing needs attention\n"), "{told:.2000}");
    }

    /// Returns a memory's text.
    pub(crate) fn view(&self, path: &str) -> String {
        self.run_ok(&["view", path])
    }

    /// Runs a command line with `--json` that must succeed; returns the value it prints.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args = [args, &["--json"]].concat();
        serde_json::from_str(&self.run_ok(&args)).unwrap()
    }

    /// Writes an executable shell script, to be an editor or a pager.
    pub(crate) fn script(&self, name: &str, body: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path.display().to_string()
    }

    /// Replaces the values that differ from run to run: the sandbox, its workspace and the time.
    pub(crate) fn stable(&self, text: &str) -> String {
        let text = text.replace(&self.folder.path().display().to_string(), "<place>");
        let time = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap();
        let workspace = Regex::new("workspaces/app-[0-9a-f]{12}").unwrap();
        let text = workspace.replace_all(&text, "workspaces/<id>");
        time.replace_all(&text, "<time>").into_owned()
    }
}

impl CommandOutput {
    /// Returns status and both outputs, for a snapshot.
    pub(crate) fn shown(&self) -> String {
        let Self { status, stdout, stderr } = self;
        let part = |name: &str, text: &str| match text {
            "" => String::new(),
            text => format!("--- {name}\n{text}"),
        };
        format!("status {status}\n{}{}", part("stdout", stdout), part("stderr", stderr))
    }
}

/// Returns JSON in the form in which people read it.
pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

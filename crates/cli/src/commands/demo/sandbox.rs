//! The sandbox of the demo: a temporary home, a git checkout, and the processes that run in them.
//!
//! Every process is registered until it has ended. So clearing the sandbox, at any moment and from
//! any thread, leaves no process and no folder.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use memory::error_code::MemoryErrorCode;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};
use state::private_files::create_private_folder;
use tempfile::TempDir;

use crate::app::this_program;
use crate::exit::Failure;
use crate::files;

/// Returns the text of a file of the sandbox; `None` if it does not exist.
pub(super) fn text_of(path: &Path) -> Result<Option<String>, Failure> {
    files::read_optional(path).map_err(|error| unreadable(path, &error))
}

/// Returns the paths of the entries of a folder of the sandbox.
pub(super) fn names_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    files::names_in(folder).map_err(|error| unreadable(folder, &error))
}

/// Returns the error for a path that cannot be read. It must not count as missing, or a claim of absence would hold.
fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        MemoryErrorCode::StorageFailed,
        format!("cannot read `{}`: {error}", path.display()),
    )
}

/// The sandbox.
pub(super) struct DemoSandbox {
    program: PathBuf,
    folder: PathBuf,
    fixtures: Mutex<Fixtures>,
}

struct Fixtures {
    /// `None` once the sandbox is cleared or kept.
    folder: Option<TempDir>,
    is_cleared: bool,
    running: Vec<Child>,
}

/// The exit status and output of a command.
#[derive(Default)]
pub(super) struct ProcessOutput {
    pub(super) status: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl DemoSandbox {
    /// Creates the folders and the checkout.
    pub(super) fn build() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::file(
                "create a folder for the demo in",
                Path::new("the temporary folder"),
                &error,
            )
        };
        let folder = tempfile::Builder::new().prefix("lukasa-demo-").tempdir().map_err(failed)?;
        let stage = Self {
            program: this_program()?,
            folder: folder.path().to_owned(),
            fixtures: Mutex::new(Fixtures {
                folder: Some(folder),
                is_cleared: false,
                running: Vec::new(),
            }),
        };
        for folder in [stage.home(), stage.checkout(), stage.temporary()] {
            create_private_folder(&folder).map_err(failed)?;
        }
        Ok(stage)
    }

    /// Returns the home, with the global memories and the state.
    pub(super) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Returns the folder of the project.
    pub(super) fn checkout(&self) -> PathBuf {
        self.folder.join("app")
    }

    fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Runs git in the checkout; returns its output.
    pub(super) fn git(&self, args: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new("git");
        command.args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let ended = self.run(command)?;
        match ended.status {
            0 => Ok(ended.stdout),
            _ => Err(Failure::new(
                MemoryErrorCode::StorageFailed,
                format!("git failed: {}", ended.stderr),
            )),
        }
    }

    /// Returns a command that runs this program in the sandbox.
    pub(super) fn lukasa(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("LUKASA_HOME", self.home()).env("NO_COLOR", "1");
        command
    }

    /// Runs this program in the sandbox to its end.
    pub(super) fn run_lukasa(&self, args: &[&str]) -> Result<ProcessOutput, Failure> {
        self.run(self.lukasa(args))
    }

    /// Runs a command to its end.
    fn run(&self, mut command: Command) -> Result<ProcessOutput, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let id = self.start(command, |_| ())?.0;
        self.finish(id)
    }

    /// Starts a process; returns its id and the pipes that `take` takes.
    pub(super) fn start<T>(
        &self,
        mut command: Command,
        take: impl FnOnce(&mut Child) -> T,
    ) -> Result<(u32, T), Failure> {
        let mut fixtures = self.lock_fixtures();
        if fixtures.is_cleared {
            return Err(process_lost());
        }
        command.current_dir(self.checkout()).env("TMPDIR", self.temporary());
        let mut child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
        let (id, taken) = (child.id(), take(&mut child));
        fixtures.running.push(child);
        Ok((id, taken))
    }

    /// Reads the rest of a process's output and waits for its end.
    pub(super) fn finish(&self, id: u32) -> Result<ProcessOutput, Failure> {
        let (out, err) = {
            let mut fixtures = self.lock_fixtures();
            let child = fixtures.running.iter_mut().find(|child| child.id() == id);
            let child = child.ok_or_else(process_lost)?;
            (child.stdout.take(), child.stderr.take())
        };
        let mut ended = ProcessOutput::default();
        // Read one after the other; this cannot block, since the text on stderr fits into a pipe.
        let read = out.map_or(Ok(0), |mut out| out.read_to_string(&mut ended.stdout));
        let read =
            read.and_then(|_| err.map_or(Ok(0), |mut err| err.read_to_string(&mut ended.stderr)));
        read.map_err(|_| process_lost())?;
        ended.status = self.wait(id)?.code().unwrap_or(-1);
        Ok(ended)
    }

    /// Waits for the end of a process whose pipes are closed.
    pub(super) fn wait(&self, id: u32) -> Result<ExitStatus, Failure> {
        self.remove_running(id)?.wait().map_err(|_| process_lost())
    }

    /// Sends SIGTERM to a process, like a service manager; returns whether it exited with success.
    pub(super) fn terminate(&self, id: u32) -> Result<bool, Failure> {
        if let Some(process) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            kill_process(process, Signal::TERM).map_err(|_| process_lost())?;
        }
        Ok(self.wait(id)?.success())
    }

    /// Kills a process like `kill -9`.
    pub(super) fn kill(&self, id: u32) -> Result<ExitStatus, Failure> {
        let mut child = self.remove_running(id)?;
        child.kill().and_then(|()| child.wait()).map_err(|_| process_lost())
    }

    fn remove_running(&self, id: u32) -> Result<Child, Failure> {
        let running = &mut self.lock_fixtures().running;
        let index = running.iter().position(|child| child.id() == id);
        Ok(running.swap_remove(index.ok_or_else(process_lost)?))
    }

    /// Keeps the folder on disk; returns its path.
    pub(super) fn keep_folder(&self) -> &Path {
        if let Some(folder) = self.lock_fixtures().folder.take() {
            let _kept = folder.keep();
        }
        &self.folder
    }

    /// Kills every process and removes the folder.
    pub(super) fn clear(&self) {
        let mut fixtures = self.lock_fixtures();
        fixtures.is_cleared = true;
        for mut child in fixtures.running.drain(..) {
            // An error means that the process has already ended.
            let _already_ended = child.kill();
            let _reaped = child.wait();
        }
        drop(fixtures.folder.take());
    }

    fn lock_fixtures(&self) -> MutexGuard<'_, Fixtures> {
        self.fixtures.lock()
    }
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    let program = command.get_program();
    if program == "git" && error.kind() == std::io::ErrorKind::NotFound {
        return Failure::new(
            MemoryErrorCode::NotFound,
            "the demo needs git, which is not installed",
        )
        .help("install it, for example with `apt-get install git`");
    }
    Failure::file("start", Path::new(program), error)
}

/// Returns the error for a process that ended unexpectedly.
fn process_lost() -> Failure {
    Failure::new(MemoryErrorCode::StorageFailed, "a process of the demo ended unexpectedly")
}

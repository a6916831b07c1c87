//! A PostgreSQL server on the loopback, with its data in a temporary folder.
//!
//! PostgreSQL refuses to run as root. Tests that run as root therefore start it as the user `nobody`. The server ends
//! when its value is dropped, and also when the test process is killed.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of the server are no memories, and the processes are those of the machine"
)]

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::reserved_port::ReservedPort;
use crate::wait::eventually;

/// The folders in which Debian installs a version's programs: `/usr/lib/postgresql/15/bin`.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";
/// The variable with the folder of the programs of another version.
const OTHER_PROGRAMS: &str = "LUKASA_TEST_POSTGRES";
/// The id of Debian's user `nobody` and of its group `nogroup`, which own no files.
const UNPRIVILEGED_ID: u32 = 65_534;
/// The role that owns everything.
const ROLE: &str = "lukasa";
/// Runs the server until it ends by itself or standard input closes, as it does when the test process dies.
const SUPERVISE: &str = r#""$@" & server=$!
(cat > /dev/null; kill -QUIT $server) <&3 &
wait $server"#;
/// Settings of all servers. Data is not synchronized: tests kill processes, not the machine.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "max_connections=200",
    "shared_buffers=32MB",
    "log_min_messages=warning",
];

/// The version of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresVersion {
    /// The latest of the Debian packages on this machine.
    Debian,
    /// The version that `cargo xtask tools` installs.
    Newest,
}

/// A running or killed server.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    port: ReservedPort,
    settings: Vec<String>,
    process: Option<Child>,
}

impl PostgresServer {
    /// Starts a server with these further settings (`name=value`), and waits until it answers.
    pub fn start(version: PostgresVersion, settings: &[&str]) -> io::Result<Self> {
        let settings: Vec<_> =
            SETTINGS.iter().chain(settings).map(|&setting| setting.to_owned()).collect();
        let mut server = Self::prepare(&programs(version)?, &settings)?;
        if version == PostgresVersion::Newest {
            server.programs = server.own_programs()?;
        }
        let data = server.data();
        let arguments = ["--no-sync", "--auth=trust", "--no-locale", "--encoding=UTF8", "-U", ROLE];
        run(server.command("initdb").args(arguments).arg("-D").arg(data))?;
        server.launch()?;
        Ok(server)
    }

    /// Returns a server that has no data yet.
    fn prepare(programs: &Path, settings: &[String]) -> io::Result<Self> {
        let server = Self {
            folder: tempfile::tempdir()?,
            programs: programs.to_owned(),
            port: ReservedPort::reserve()?,
            settings: settings.to_vec(),
            process: None,
        };
        if rustix::process::geteuid().is_root() {
            chown(server.folder.path(), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID))?;
        }
        fs::set_permissions(server.folder.path(), Permissions::from_mode(0o700))?;
        Ok(server)
    }

    /// Returns its port on the loopback, which stays the same when the server restarts.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Starts a standby of this server. Commits here wait for it from now on.
    pub fn start_synchronous_standby(&self) -> io::Result<Self> {
        let mut standby = Self::prepare(&self.programs, &self.settings)?;
        let port = self.port().to_string();
        let source = ["-h", "127.0.0.1", "-p", &port, "-U", ROLE];
        let arguments = ["--no-sync", "--write-recovery-conf", "--checkpoint=fast", "-D"];
        let mut copy = standby.command("pg_basebackup");
        run(copy.args(source).args(arguments).arg(standby.data()))?;
        standby.launch()?;
        self.configure("SET synchronous_standby_names = '*'")?;
        let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        eventually(|| match self.query("postgres", synchronous) {
            Ok(count) if count == "1\n" => Ok(()),
            other => Err(other),
        });
        Ok(standby)
    }

    /// Makes a standby a server that accepts writes. Its commits wait for no standby.
    pub fn promote(&self) -> io::Result<()> {
        self.query("postgres", "SELECT pg_promote()")?;
        self.configure("RESET synchronous_standby_names")
    }

    /// Changes a setting of the running server.
    fn configure(&self, change: &str) -> io::Result<()> {
        for statement in [&format!("ALTER SYSTEM {change}"), "SELECT pg_reload_conf()"] {
            self.query("postgres", statement)?;
        }
        Ok(())
    }

    /// Creates an empty database and returns its address.
    pub fn create_database(&self, name: &str) -> io::Result<String> {
        self.query("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(name))
    }

    /// Returns the address of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/{database}", self.port())
    }

    /// Runs SQL statements and returns their rows: a line for each, with `|` between its columns.
    pub fn query(&self, database: &str, sql: &str) -> io::Result<String> {
        let url = self.url(database);
        let options = ["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql];
        run(self.command("psql").arg("-d").arg(url).args(options))
    }

    /// Kills all processes of the server at once, as a machine that stops does.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let children = fs::read_to_string(self.data().join("postmaster.pid"))?;
        let server = children.lines().next().and_then(|id| id.trim().parse().ok());
        let server = server.and_then(Pid::from_raw).expect("the first line is the process");
        // A server whose main process dies ends its other processes.
        kill_process(server, Signal::KILL)?;
        process.wait()?;
        Ok(())
    }

    /// Starts a killed server again, and waits until it answers.
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        self.launch()
    }

    /// Returns what the server logged.
    pub fn log(&self) -> io::Result<String> {
        fs::read_to_string(self.folder.path().join("log"))
    }

    /// Copies the programs and what belongs to them into the folder: the user of the server may not be able to read them
    /// where they are. Returns the folder of the copied programs.
    fn own_programs(&self) -> io::Result<PathBuf> {
        // The package has the folder `pginstall/bin`, and its libraries are in a folder beside the package.
        let package = self.programs.ancestors().nth(2).expect("programs are in a package");
        let copy = self.folder.path().join("installation");
        fs::create_dir(&copy)?;
        let libraries = package.with_extension("libs");
        run(Command::new("cp").arg("-r").arg(package).arg(libraries).arg(&copy))?;
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(&copy))?;
        Ok(copy.join(package.file_name().expect("a package has a name")).join("pginstall/bin"))
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns a command that runs one of the server's programs as its user.
    fn command(&self, program: &str) -> Command {
        self.as_user(self.programs.join(program))
    }

    fn as_user(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env_remove("PGOPTIONS").env_remove("PGHOST");
        if rustix::process::geteuid().is_root() {
            command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
        }
        command
    }

    fn launch(&mut self) -> io::Result<()> {
        let log = self.folder.path().join("log");
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = self.as_user("sh");
        command.arg("-c").arg(format!("exec 3<&0\n{SUPERVISE}")).arg("sh");
        command.arg(self.programs.join("postgres")).arg("-D").arg(self.data());
        command.arg("-p").arg(self.port().to_string()).arg("-k").arg(self.folder.path());
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        eventually(|| {
            // A server refuses to start beside processes of a killed one, which end a little later.
            if !matches!(self.process.as_mut().map(Child::try_wait), Some(Ok(None))) {
                self.process = Some(command.spawn()?);
            }
            let port = self.port().to_string();
            let ready = ["-q", "-h", "127.0.0.1", "-p", &port, "-d", "postgres"];
            run(self.command("pg_isready").args(ready))
                .map_err(|error| io::Error::other(format!("{error}: {:?}", self.log())))
        });
        Ok(())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        // The supervisor ends the server when this end of the pipe closes.
        drop(process.stdin.take());
        process.wait().expect("a child process can be waited for");
    }
}

/// Returns the folder of a version's programs.
fn programs(version: PostgresVersion) -> io::Result<PathBuf> {
    if version == PostgresVersion::Newest {
        let folder = std::env::var_os(OTHER_PROGRAMS).map(PathBuf::from);
        return folder.ok_or_else(|| io::Error::other(format!("`{OTHER_PROGRAMS}` is not set")));
    }
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in fs::read_dir(DEBIAN_FOLDER)? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let programs = entry.path().join("bin");
        if let Some(number) = number
            && programs.join("postgres").exists()
        {
            found.push((number, programs));
        }
    }
    let newest = found.into_iter().max().map(|(_, programs)| programs);
    newest.ok_or_else(|| io::Error::other(format!("no server is in `{DEBIAN_FOLDER}`")))
}

/// Runs a command and returns its output. An error has what it wrote to standard error.
fn run(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let program = Path::new(command.get_program()).display().to_string();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{program}: {}: {message}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_its_data_when_it_is_killed() {
        let mut server = PostgresServer::start(PostgresVersion::Debian, &[]).unwrap();
        server.create_database("one").unwrap();
        server.query("one", "CREATE TABLE a (b int); INSERT INTO a VALUES (7)").unwrap();
        server.kill().unwrap();
        assert!(server.query("one", "SELECT 1").is_err());
        server.restart().unwrap();
        assert_eq!(server.query("one", "SELECT b FROM a").unwrap(), "7\n");
    }
}

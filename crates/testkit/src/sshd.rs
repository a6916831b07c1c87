//! An OpenSSH server on the loopback, and the configuration of a client for it.
//!
//! Keys, configuration and the home of sessions are in a temporary folder. It neither reads nor writes what belongs to
//! the user, and of the machine only `/run/sshd`, which `sshd` requires of root. Sessions are those of the current
//! user, since only root can log in others. It offers commands, no interactive shell and no file transfer protocol.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of the server are no memories, and the processes are those of the machine"
)]

mod processes;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use store::BaseFolders;
use store::backend::remote::serve;
use tempfile::TempDir;

use crate::reserved_port::ReservedPort;
use crate::wait::eventually;

/// The server starts itself again for each connection, which needs its full path.
const SSHD: &str = "/usr/sbin/sshd";
/// The folder in which a server of root confines a part of itself.
const CONFINED_FOLDER: &str = "/run/sshd";
/// The name of the server in the configuration of the client.
const HOST: &str = "far";
/// The search path of sessions after the folders of the test.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The variable that sessions and their children inherit; its value is the folder of the server.
const MARK: &str = "TESTKIT_SSH_SERVER";
/// The configuration that all servers share.
///
/// - `StrictModes`: the folder for temporary files may be writable by others.
/// - `MaxStartups`: no connection is refused at random, even if many begin at once.
/// - `ForceCommand`: a session begins in the real home of the user.
const FIXED_CONFIG: &str = r#"AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserRC no
PidFile none
UsePAM no
StrictModes no
MaxStartups 1000
ForceCommand cd "$HOME" && exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"#;
/// The configuration that all clients share. The first value of an option counts, so a command line can change it.
///
/// - `KexAlgorithms`: the default takes ten times as long, which is most of the time of a connection.
const FIXED_CLIENT_CONFIG: &str = "HostName 127.0.0.1
IdentitiesOnly yes
IdentityAgent none
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
UpdateHostKeys no
KexAlgorithms curve25519-sha256
";
/// The file that has the standard error of the server.
const LOG: &str = "log";
/// The first bytes of a server.
const BANNER: &[u8] = b"SSH-";
/// The longest wait for these bytes before the connection is tried again.
const BANNER_WAIT: Duration = Duration::from_secs(10);

/// The options of a server.
#[derive(Clone, Debug, Default)]
pub struct SshServerOptions {
    /// The most sessions of one connection; the default of OpenSSH if absent.
    pub max_sessions: Option<u32>,
    /// Folders that come first in the `PATH` of sessions.
    pub path_dirs: Vec<PathBuf>,
}

/// A running or stopped server. Dropping it stops it.
#[derive(Debug)]
pub struct SshServer {
    folder: TempDir,
    home: PathBuf,
    client_config: PathBuf,
    port: ReservedPort,
    process: Option<Child>,
    user: String,
    /// Options of this version of `sshd`.
    version_options: &'static [&'static str],
}

impl SshServer {
    /// Starts a server and waits until it answers. An error has what the server logged.
    pub fn start(options: &SshServerOptions) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut server = Self {
            home: folder.path().join("home"),
            client_config: folder.path().join("ssh_config"),
            folder,
            port: ReservedPort::reserve()?,
            process: None,
            user: run(Command::new("id").arg("-un"))?.trim().to_owned(),
            version_options: &[],
        };
        fs::create_dir(&server.home)?;
        server.create_key("client_key")?;
        server.create_key("host_key")?;
        fs::copy(server.path("client_key.pub"), server.path("authorized_keys"))?;
        let host_key = fs::read_to_string(server.path("host_key.pub"))?;
        fs::write(server.path("known_hosts"), format!("{HOST} {host_key}"))?;
        server.write_client_config(&server.client_config, server.port())?;
        fs::write(server.path("sshd_config"), server.config(options)?)?;
        create_confined_folder()?;
        server.version_options = server.find_version_options()?;
        server.launch()?;
        Ok(server)
    }

    /// Returns its port on the loopback. It stays the same when the server restarts.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the folder that is `HOME` and the working directory of sessions.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns a configuration for `ssh -F`, in which the server is called `far`.
    pub fn client_config(&self) -> &Path {
        &self.client_config
    }

    /// Returns such a configuration with another port, such as that of a proxy in front of the server.
    pub fn client_config_through(&self, port: u16) -> io::Result<PathBuf> {
        let file = self.path(&format!("ssh_config_{port}"));
        self.write_client_config(&file, port)?;
        Ok(file)
    }

    /// Gives the server a new host key and restarts it. The client still expects the old one.
    pub fn change_host_key(&mut self) -> io::Result<()> {
        fs::remove_file(self.path("host_key"))?;
        self.create_key("host_key")?;
        self.restart()
    }

    /// Stops the server if it runs, and starts it on the same port.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop();
        self.launch()
    }

    /// Kills the server, its sessions and all processes that they started, and returns when they are gone. The port
    /// refuses connections then. A process that detached itself is found unless it also cleared its environment.
    pub fn stop(&mut self) {
        let mut found = BTreeSet::new();
        loop {
            let new = &self.processes() - &found;
            if new.is_empty() {
                break;
            }
            // A stopped process starts no other between the search and the kill.
            processes::signal(&new, Signal::STOP);
            found.extend(new);
        }
        processes::signal(&found, Signal::KILL);
        if let Some(mut process) = self.process.take() {
            process.wait().expect("a child process can be waited for");
        }
        eventually(|| {
            let started_late = self.processes();
            processes::signal(&started_late, Signal::KILL);
            let mut left = &found | &started_late;
            left.retain(|id| processes::is_running(*id));
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// Returns the ids of the processes that [`Self::stop`] kills.
    pub fn processes(&self) -> BTreeSet<u32> {
        processes::of_server(self.process.as_ref().map(Child::id), &self.mark())
    }

    /// Returns what the server logged, also before it was restarted.
    pub fn log(&self) -> io::Result<String> {
        fs::read_to_string(self.path(LOG))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn mark(&self) -> String {
        format!("{MARK}={}", self.folder.path().display())
    }

    fn create_key(&self, name: &str) -> io::Result<()> {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(self.path(name));
        run(&mut command).map(drop)
    }

    fn config(&self, options: &SshServerOptions) -> io::Result<String> {
        let system = std::env::split_paths(SEARCH_PATH);
        let search_path = std::env::join_paths(options.path_dirs.iter().cloned().chain(system));
        let search_path = search_path.map_err(io::Error::other)?;
        let search_path = format!("PATH={}", text(search_path.as_ref())?);
        let home = format!("HOME={}", text(&self.home)?);
        let variables = [self.mark(), home, search_path].map(|variable| quoted(&variable));
        let mut lines = vec![
            "ListenAddress 127.0.0.1".to_owned(),
            format!("Port {}", self.port()),
            format!("HostKey {}", quoted(text(&self.path("host_key"))?)),
            format!("AuthorizedKeysFile {}", quoted(text(&self.path("authorized_keys"))?)),
            // The only line of variables that counts is the first. They replace those of the user before a shell reads
            // its start files.
            format!("SetEnv {}", variables.join(" ")),
        ];
        lines.extend(options.max_sessions.map(|sessions| format!("MaxSessions {sessions}")));
        lines.push(FIXED_CONFIG.to_owned());
        Ok(lines.join("\n"))
    }

    fn write_client_config(&self, file: &Path, port: u16) -> io::Result<()> {
        let lines = [
            format!("Host {HOST}"),
            format!("Port {port}"),
            format!("User {}", self.user),
            format!("IdentityFile {}", quoted(text(&self.path("client_key"))?)),
            format!("UserKnownHostsFile {}", quoted(text(&self.path("known_hosts"))?)),
            // The same key is known behind another port.
            format!("HostKeyAlias {HOST}"),
            FIXED_CLIENT_CONFIG.to_owned(),
        ];
        fs::write(file, lines.join("\n"))
    }

    /// Returns the options that only some versions know.
    fn find_version_options(&self) -> io::Result<&'static [&'static str]> {
        // Otherwise all tests of one address wait after a failed login.
        const NO_PENALTIES: &[&str] = &["-o", "PerSourcePenalties=no"];
        let mut command = self.sshd();
        let output = command.arg("-t").args(NO_PENALTIES).output()?;
        Ok(if output.status.success() { NO_PENALTIES } else { &[] })
    }

    fn sshd(&self) -> Command {
        let mut command = Command::new(SSHD);
        command.arg("-f").arg(self.path("sshd_config")).stdin(Stdio::null());
        command
    }

    /// Starts the process and waits until it answers.
    fn launch(&mut self) -> io::Result<()> {
        let log = File::options().append(true).create(true).open(self.path(LOG))?;
        let mut command = self.sshd();
        command.args(["-D", "-e"]).args(self.version_options);
        // It stays in the process group of the test. What ends the group of a test that hangs also ends the server.
        let process = command.stdout(Stdio::null()).stderr(log).spawn()?;
        let process = self.process.insert(process);
        let (port, log) = (self.port.number(), self.folder.path().join(LOG));
        let with_log = |error: &dyn fmt::Display| {
            let log = fs::read_to_string(&log).unwrap_or_else(|error| error.to_string());
            io::Error::other(format!("sshd does not answer: {error}\n{log}"))
        };
        eventually(|| match process.try_wait() {
            Ok(None) => read_banner(port).map(Ok).map_err(|error| with_log(&error)),
            Ok(Some(status)) => Ok(Err(with_log(&status))),
            Err(error) => Ok(Err(error)),
        })
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Connects and checks that a server of this protocol answers.
fn read_banner(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(BANNER_WAIT))?;
    let mut received = [0; BANNER.len()];
    stream.read_exact(&mut received)?;
    if received == *BANNER { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Creates what a server of root needs. The machine's own service creates it too, but does not run.
fn create_confined_folder() -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // The server refuses a folder that others can write.
    match DirBuilder::new().mode(0o755).create(CONFINED_FOLDER) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Runs a program and returns what it printed.
fn run(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let error_output = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{command:?}: {}: {error_output}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::other(format!("{} is not UTF-8", path.display())))
}

/// Returns the text as one word of a configuration.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests;

/// Serves the projects of a machine with this home, over the standard streams of this process, until the client leaves. So
/// a test without the program can be the other machine, too.
pub async fn serve_projects(home: &Path) -> io::Result<()> {
    let folders = BaseFolders { data: home.join("data"), state: home.join("state") };
    serve(tokio::io::stdin(), tokio::io::stdout(), &folders, home).await
}

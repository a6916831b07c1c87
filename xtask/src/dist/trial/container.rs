//! The trial of the container file without a container engine.
//!
//! Its last stage becomes a root that has a C library, the program, and the user and the folder that the file makes. The
//! daemon is started there as an engine starts it. Only the certificates are missing, which the base image gets from the
//! network.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::cargo;
use crate::dist::trial::{BareRoot, FACT, QUESTION, isolated};
use crate::tools::system;

/// The container file, below the root of the checkout.
pub(super) const CONTAINERFILE: &str = "deploy/Containerfile";

/// Starts the daemon of the image, uses it and stops it.
pub(super) fn try_container(checkout: &Path, folder: &Path, program: &Path) -> anyhow::Result<()> {
    let image = Image::parse(&fs::read_to_string(checkout.join(CONTAINERFILE))?)?;
    let root = BareRoot::create(folder)?;
    let inside = |path: &str| root.0.join(path.trim_start_matches('/'));
    let installed = inside(&image.program);
    fs::create_dir_all(installed.parent().context("the program is in a folder")?)?;
    fs::copy(program, installed)?;
    let home = inside(&image.folder);
    fs::create_dir_all(&home)?;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700))?;
    if system::is_root() {
        chown(&home, Some(image.user), Some(image.group))?;
    }
    // Any port: the gate of another checkout may run at the same time.
    let mut daemon =
        Daemon::start(image.command(&root).args(&image.arguments).args(["--port", "0"]))?;
    let lukasa = |arguments: &[&str]| cargo::output(image.command(&root).args(arguments));
    lukasa(&["remember", "--scope", "global", FACT])?;
    let recalled = lukasa(&["recall", QUESTION])?;
    anyhow::ensure!(recalled.contains(FACT), "the fact is not recalled: {recalled}");
    let checked = lukasa(&["self", "check"])?;
    anyhow::ensure!(
        checked.contains("fits, process"),
        "the program does not find the daemon: {checked}"
    );
    daemon.stop()
}

/// The parts of a container file by which an engine starts its last stage.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    /// The path of the program, which is the entry point.
    program: String,
    /// The arguments without others.
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    user: u32,
    group: u32,
    /// The working directory. It is the only folder that the user may write in.
    folder: String,
}

impl Image {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.replace("\\\n", " ");
        let instructions: Vec<(&str, &str)> =
            text.lines().filter_map(|line| line.split_once(' ')).collect();
        let stage = instructions.iter().rposition(|(name, _)| *name == "FROM");
        let stage = &instructions[stage.context("the file has no stage")?..];
        let all = |name: &'static str| {
            stage.iter().filter(move |(found, _)| *found == name).map(|(_, value)| value.trim())
        };
        let last = |name: &'static str| {
            all(name).next_back().with_context(|| format!("the last stage has no {name}"))
        };
        let entry: Vec<String> = serde_json::from_str(last("ENTRYPOINT")?)?;
        let [program] =
            entry.try_into().ok().context("the entry point is not the program alone")?;
        let (user, group) = last("USER")?.split_once(':').context("USER names no group")?;
        let folder = last("WORKDIR")?.to_owned();
        let made = format!("--owner {user} --group {group} --mode 0700 {folder}");
        anyhow::ensure!(all("RUN").any(|run| run.contains(&made)), "no RUN has `{made}`");
        let copied = all("COPY").any(|copied| copied.split(' ').next_back() == Some(&program));
        anyhow::ensure!(copied, "no COPY makes {program}");
        let variables = all("ENV").map(|pair| {
            let (name, value) = pair.split_once('=').context("ENV has no value")?;
            anyhow::Ok((name.to_owned(), value.to_owned()))
        });
        Ok(Self {
            environment: variables.collect::<Result<_, _>>()?,
            arguments: serde_json::from_str(last("CMD")?)?,
            user: user.parse()?,
            group: group.parse()?,
            program,
            folder,
        })
    }

    /// Returns the program, started in a root as the user of the image. Its network is that of this machine, because a new
    /// one has no loopback.
    fn command(&self, root: &BareRoot) -> Command {
        let mut command = isolated(&["--mount"]);
        // The process is replaced twice, so that it gets the signals that are sent to it.
        let script = "mount --rbind /proc \"$0/proc\" && exec unshare --root=\"$0\" \"$@\"";
        command.args(["--", "sh", "-c", script]).arg(&root.0);
        command.arg(format!("--wd={}", self.folder));
        // Without root there is one user only.
        if system::is_root() {
            command.arg(format!("--setgid={}", self.group));
            command.arg(format!("--setuid={}", self.user));
        }
        command.arg("--").arg(&self.program).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A running daemon. It is killed when this is dropped.
struct Daemon(Child);

impl Daemon {
    /// Starts a daemon, and waits until it says that it listens.
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let output = child.stdout.take().context("the daemon has no output")?;
        let daemon = Self(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        anyhow::ensure!(line.contains("http://"), "the daemon did not start: {line:?}");
        Ok(daemon)
    }

    /// Stops the daemon as an engine does.
    fn stop(&mut self) -> anyhow::Result<()> {
        let mut kill = Command::new("kill");
        cargo::output(kill.arg("-TERM").arg(self.0.id().to_string()))?;
        let status = self.0.wait()?;
        anyhow::ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has ended, unless the trial failed.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "FROM a AS build\nUSER 1:1\nFROM b\n# RUN no\nRUN x \\\n    && install \
                        --owner 5 --group 6 --mode 0700 /d\nCOPY --from=build /a /bin/p\nENV A=b\n\
                        USER 5:6\nWORKDIR /d\nENTRYPOINT [\"/bin/p\"]\nCMD [\"serve\"]\n";

    #[test]
    fn the_last_stage_says_how_the_program_is_started() {
        let image = Image::parse(FILE).unwrap();
        assert_eq!((image.user, image.group, image.folder.as_str()), (5, 6, "/d"));
        assert_eq!(
            (image.program.as_str(), &image.arguments[..]),
            ("/bin/p", &["serve".to_owned()][..])
        );
        assert_eq!(image.environment, [("A".to_owned(), "b".to_owned())]);
        for (from, to) in
            [("USER 5:6", "USER 5"), ("0700 /d", "0755 /d"), ("/a /bin/p", "/a /b"), ("CMD", "X")]
        {
            Image::parse(&FILE.replace(from, to)).unwrap_err();
        }
    }
}

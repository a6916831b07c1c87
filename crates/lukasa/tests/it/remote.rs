//! Projects on another machine, by a real SSH server. This program is also the one on that machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use lukasa::{ErrorKind, Lukasa, RemoteFolder};
use testkit::sshd::{SshServer, SshServerOptions};

use crate::{TestHome, paths};

/// The environment variable of a process that serves the other machine.
const FAR_SIDE: &str = "LUKASA_TEST_FAR_SIDE";

/// A machine with a checkout, on which this program serves projects while it runs `test`.
struct Machine {
    server: SshServer,
}

impl Machine {
    fn start(test: &str) -> Self {
        let server = SshServer::start(&SshServerOptions::default()).unwrap();
        let programs = server.home().join(".local/share/lukasa/bin");
        fs::create_dir_all(&programs).unwrap();
        let this = std::env::current_exe().unwrap();
        // What the test runner prints first is skipped, as the greeting of a login shell is.
        let script = format!(
            "#!/bin/sh\n{FAR_SIDE}=1 exec {} remote::{test} --exact --nocapture\n",
            this.display()
        );
        let program = programs.join("lukasa");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let machine = Self { server };
        fs::create_dir_all(machine.memory("")).unwrap();
        fs::create_dir_all(machine.server.home().join("shop/.git")).unwrap();
        fs::write(machine.memory("deploy.md"), "- Deploys run at noon.\n").unwrap();
        machine
    }

    fn memory(&self, name: &str) -> PathBuf {
        self.server.home().join("shop/.lukasa/memory").join(name)
    }

    /// Opens a home here whose settings reach the machine.
    async fn open(&self, home: &TestHome) -> Lukasa {
        let config = self.server.client_config().as_os_str().to_owned();
        let builder = Lukasa::builder(home.path().join("home"));
        let command = vec!["ssh".into(), "-F".into(), config];
        builder.configure(|settings| settings.ssh.command = command).open().await.unwrap()
    }
}

/// Serves the projects of the other machine in this process, if it was started for that.
async fn serve_there() -> bool {
    if std::env::var_os(FAR_SIDE).is_none() {
        return false;
    }
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    testkit::sshd::serve_projects(&home).await.unwrap();
    true
}

fn shop() -> RemoteFolder {
    "ssh://far/~/shop".parse().unwrap()
}

#[tokio::test]
async fn a_remote_workspace_has_its_project_there_and_all_else_here() {
    if serve_there().await {
        return;
    }
    let mut machine = Machine::start("a_remote_workspace_has_its_project_there_and_all_else_here");
    let home = TestHome::new();
    let lukasa = machine.open(&home).await;
    let workspace = lukasa.remote_workspace(shop());
    let memories = workspace.as_person("test");
    let made = memories.create("project/new.md", "- one\n").await.unwrap();
    memories.edit("project/new.md", "one", "two").await.unwrap();
    assert_eq!(fs::read_to_string(machine.memory("new.md")).unwrap(), "- two\n");
    assert_eq!(memories.undo(made.change.unwrap()).await.unwrap_err().kind(), ErrorKind::Conflict);
    memories.create("workspace/note.md", "- here\n").await.unwrap();
    memories.create("global/tea.md", "- here\n").await.unwrap();
    let expected = ["global/tea.md", "project/deploy.md", "project/new.md", "workspace/note.md"];
    assert_eq!(paths(&memories).await, expected.map(|path| format!("/memories/{path}")));
    assert!(!machine.server.home().join("data").exists());
    // Another workspace of the same home reads the same project.
    let same = lukasa.remote_workspace("SSH://far/~/shop/".parse().unwrap()).as_person("test");
    assert_eq!(same.read("project/new.md").await.unwrap().text, "- two\n");
    // As for a clone, models see the text once the folder is trusted.
    let context = async || memories.context().await.unwrap().text;
    assert!(!context().await.contains("Deploys run at noon"));
    workspace.trust().await.unwrap();
    assert!(context().await.contains("Deploys run at noon"));
    workspace.distrust().await.unwrap();
    assert!(!context().await.contains("Deploys run at noon"));

    machine.server.stop();
    let refused = memories.create("project/late.md", "- late\n").await.unwrap_err();
    assert_eq!(refused.code(), "scope_unavailable", "{refused}");
    assert_eq!(memories.read("global/tea.md").await.unwrap().text, "- here\n");
    lukasa.close().await;
    assert!(!machine.memory("late.md").exists());
}

#[test]
fn a_program_without_a_runtime_uses_a_remote_workspace() {
    let test = "a_program_without_a_runtime_uses_a_remote_workspace";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if runtime.block_on(serve_there()) {
        return;
    }
    let machine = Machine::start(test);
    let home = TestHome::new();
    lukasa::block_on(async {
        let lukasa = machine.open(&home).await;
        let memories = lukasa.remote_workspace(shop()).as_person("test");
        memories.create("project/new.md", "- one\n").await.unwrap();
        lukasa.close().await;
    });
    assert_eq!(fs::read_to_string(machine.memory("new.md")).unwrap(), "- one\n");
}

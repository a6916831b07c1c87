//! Projects on another machine, by a real `ssh` and a real SSH server.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::sshd::{SshServer, SshServerOptions};

use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

const ADDRESS: &str = "ssh://far/~/shop";

/// A machine with a checkout, and a home here whose settings reach it.
struct RemoteSetup {
    server: SshServer,
    place: Sandbox,
}

impl RemoteSetup {
    /// Starts the server. The program is installed there if `path_dirs` has its folder.
    fn start(path_dirs: Vec<PathBuf>) -> Self {
        let options = SshServerOptions { max_sessions: Some(1), path_dirs };
        let server = SshServer::start(&options).unwrap();
        let memory = server.home().join("shop/.lukasa/memory");
        fs::create_dir_all(server.home().join("shop/.git")).unwrap();
        fs::create_dir_all(&memory).unwrap();
        fs::write(memory.join("deploy.md"), "- Deploys run at noon.\n").unwrap();
        let place = Sandbox::with(&[("global/tea.md", "- Bea drinks tea.\n")]);
        let setup = Self { server, place };
        setup.use_client_config(setup.server.client_config());
        setup
    }

    fn use_client_config(&self, file: &Path) {
        let settings = format!("[ssh]\ncommand = [\"ssh\", \"-F\", \"{}\"]\n", file.display());
        fs::write(self.place.home().join("config.toml"), settings).unwrap();
    }

    fn memory(&self, name: &str) -> PathBuf {
        self.server.home().join("shop/.lukasa/memory").join(name)
    }

    fn run_ok(&self, args: &[&str]) -> String {
        self.place.run_ok(&[&["--project", ADDRESS], args].concat())
    }

    /// Returns the errors of a command that fails.
    fn fails(&self, args: &[&str]) -> String {
        let ended = self.place.run(&[&["--project", ADDRESS], args].concat());
        assert_ne!(ended.status, 0, "{}", ended.stdout);
        ended.stderr
    }
}

fn program_folder() -> PathBuf {
    assert_cmd::cargo::cargo_bin("lukasa").parent().unwrap().to_owned()
}

#[test]
fn a_project_on_another_machine_works_like_a_local_one() {
    let setup = RemoteSetup::start(vec![program_folder()]);
    assert!(setup.run_ok(&["ls"]).contains("project/deploy.md"));
    setup.run_ok(&["create", "project/new.md", "- one\n"]);
    setup.run_ok(&["replace", "project/new.md", "one", "two"]);
    assert_eq!(fs::read_to_string(setup.memory("new.md")).unwrap(), "- two\n");
    setup.run_ok(&["mv", "project/new.md", "project/d/moved.md"]);
    setup.run_ok(&["undo", "-y"]);
    assert_eq!(setup.run_ok(&["view", "project/new.md"]), "- two\n");
    setup.run_ok(&["rm", "-y", "project/new.md"]);
    assert!(!setup.memory("new.md").exists());
    // An edit on that machine is an external one.
    fs::write(setup.memory("deploy.md"), "- Deploys run at one.\n").unwrap();
    assert!(setup.run_ok(&["log", "project/deploy.md"]).contains("outside"));
    // Only the project is there; the person's own memories and the history are here.
    setup.run_ok(&["create", "global/new.md", "- here\n"]);
    assert!(setup.place.home().join("memory/new.md").exists());
    let far_state = setup.server.home().join(".local/state/lukasa");
    assert!(far_state.join("locks").is_dir() && !far_state.join("lukasa.db").exists());
    // Text of a clone is recalled once the person trusts it.
    assert!(
        !setup
            .place
            .run(&["--project", ADDRESS, "recall", "when do deploys run"])
            .stdout
            .contains("one")
    );
    setup.run_ok(&["trust", "--yes"]);
    assert!(setup.run_ok(&["recall", "when do deploys run"]).contains("Deploys run at one"));
}

#[test]
fn an_agent_uses_a_remote_project_and_sees_no_path_of_its_machine() {
    let setup = RemoteSetup::start(vec![program_folder()]);
    let mut served =
        McpServerProcess::start_as(setup.place.command(&["mcp", "--project", ADDRESS]));
    served.create("/memories/project/agent.md", "- by the agent\n");
    fs::write(setup.memory("agent.md"), "- by the agent\n- by a person there\n").unwrap();
    let home = setup.server.home().display().to_string();
    for (path, expected) in [
        ("/memories", "/memories/project/agent.md"),
        ("/memories/project/agent.md", "by a person there"),
        ("/memories/project/none.md", "does not exist"),
    ] {
        let answer = served.call(&json!({ "command": "view", "path": path }));
        assert!(answer.text.contains(expected), "{}", answer.text);
        assert!(!answer.text.contains(&home), "{}", answer.text);
    }
    served.close_input();
    setup.place.check_healthy();
}

#[test]
fn a_machine_that_cannot_be_used_leaves_the_other_scopes_and_says_what_to_do() {
    let mut setup = RemoteSetup::start(Vec::new());
    let errors = setup.fails(&["view", "project/deploy.md"]);
    assert!(errors.contains("lukasa remote install far"), "{errors}");
    assert_eq!(setup.run_ok(&["view", "global/tea.md"]), "- Bea drinks tea.\n");
    assert!(setup.run_ok(&["ls"]).contains("global/tea.md"));
    setup.place.run_ok(&["remote", "install", "far"]);
    assert!(setup.place.run_ok(&["remote", "check", ADDRESS]).contains("1 memory"));
    setup.server.change_host_key().unwrap();
    let errors = setup.fails(&["create", "project/new.md", "x"]);
    assert!(errors.contains("ssh-keygen -R far"), "{errors}");
    setup.server.stop();
    let errors = setup.fails(&["view", "project/deploy.md"]);
    assert!(errors.contains("cannot be reached"), "{errors}");
    assert!(!setup.memory("new.md").exists());
}

#[test]
fn another_folder_at_an_address_is_refused_until_a_person_agrees() {
    let setup = RemoteSetup::start(vec![program_folder()]);
    setup.run_ok(&["create", "project/one.md", "- one\n"]);
    let home = setup.server.home();
    fs::rename(home.join("shop"), home.join("old")).unwrap();
    fs::create_dir_all(home.join("other/.git")).unwrap();
    std::os::unix::fs::symlink(home.join("other"), home.join("shop")).unwrap();
    let errors = setup.fails(&["create", "project/two.md", "- two\n"]);
    assert!(errors.contains("another one than before"), "{errors}");
    assert!(!home.join("other/.lukasa").exists());
    setup.place.run_ok(&["remote", "forget", ADDRESS]);
    setup.run_ok(&["create", "project/two.md", "- two\n"]);
    assert!(home.join("other/.lukasa/memory/two.md").exists());
}

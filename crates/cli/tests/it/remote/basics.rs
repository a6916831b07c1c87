//! The uses of a project on another machine: its memories, the ways in which it is out of reach, its identity.

use std::fs;

use serde_json::json;

use super::setup::{ADDRESS, RemoteSetup};
use crate::terminal::{TerminalSession, in_terminal};

#[test]
fn a_project_on_another_machine_works_like_a_local_one() {
    let setup = RemoteSetup::installed();
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
    let setup = RemoteSetup::installed();
    let mut served = setup.serve();
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
    let setup = RemoteSetup::installed();
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

#[test]
fn a_person_is_asked_whether_to_install_the_program_there() {
    let setup = RemoteSetup::start(Vec::new());
    let open = || {
        let line = format!("lukasa --project {ADDRESS} ls");
        let mut session = TerminalSession::begin(in_terminal(&setup.place, &line));
        session.wait_for("Install it now?");
        session.wait_for("[y/N] ");
        session
    };
    let mut session = open();
    session.press("n\n");
    let (_, screen) = session.end();
    assert!(screen.contains("global/tea.md") && !screen.contains("deploy.md"), "{screen}");
    let mut session = open();
    session.press("y\n");
    let (status, screen) = session.end();
    assert!(status == 0 && screen.contains("project/deploy.md"), "{screen}");
}

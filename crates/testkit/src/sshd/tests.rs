//! Tests of the server, with the client of OpenSSH.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use super::*;
use crate::tcp_proxy::TcpProxy;

/// Returns a client with this configuration, and nothing else.
fn ssh(config: &Path) -> Command {
    let mut command = Command::new("ssh");
    command.env_clear().arg("-F").arg(config).stdin(Stdio::null());
    command
}

/// Runs a command at the far side.
fn run_far(server: &SshServer, command: &str) -> Output {
    ssh(server.client_config()).args(["far", command]).output().unwrap()
}

/// Runs a command at the far side that must succeed, and returns what it printed.
fn print_far(server: &SshServer, command: &str) -> String {
    let output = run_far(server, command);
    assert!(output.status.success(), "{output:?}\n{}", server.log().unwrap());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_command_runs_at_the_far_side() {
    let server = SshServer::start(&SshServerOptions::default()).unwrap();
    assert_eq!(print_far(&server, "echo hello"), "hello\n");
    let output = run_far(&server, "printf '%s' 'two  words'; printf error >&2; exit 3");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"two  words"[..], &b"error"[..])
    );
}

#[test]
fn standard_input_reaches_the_command() {
    let server = SshServer::start(&SshServerOptions::default()).unwrap();
    let mut command = ssh(server.client_config());
    command.args(["far", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.spawn().unwrap();
    client.stdin.take().unwrap().write_all(b"sent\n\0there").unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"sent\n\0there"[..]));
}

#[test]
fn a_session_has_its_own_home_and_search_path() {
    let folder = tempfile::tempdir().unwrap();
    let dirs = ["first 'dir\"", "second $dir\\"].map(|name| folder.path().join(name));
    for (dir, printed) in dirs.iter().zip(["one", "two"]) {
        fs::create_dir(dir).unwrap();
        let program = dir.join("far-program");
        fs::write(&program, format!("#!/bin/sh\necho {printed}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path_dirs = dirs.to_vec();
    let server = SshServer::start(&SshServerOptions { path_dirs, ..Default::default() }).unwrap();
    let home = server.home();
    assert_eq!(print_far(&server, "echo \"$HOME\"; pwd"), format!("{0}\n{0}\n", home.display()));
    assert_eq!(
        print_far(&server, "echo \"$PATH\""),
        format!("{}:{}:{SEARCH_PATH}\n", dirs[0].display(), dirs[1].display())
    );
    assert_eq!(print_far(&server, "far-program"), "one\n");
    assert_eq!(print_far(&server, "echo kept >file; cat ~/file"), "kept\n");
    assert_eq!(fs::read_to_string(home.join("file")).unwrap(), "kept\n");
}

#[test]
fn a_changed_host_key_makes_the_client_fail() {
    let mut server = SshServer::start(&SshServerOptions::default()).unwrap();
    let port = server.port();
    print_far(&server, "true");
    server.change_host_key().unwrap();
    let output = run_far(&server, "true");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255), "{error}");
    assert!(error.contains("REMOTE HOST IDENTIFICATION HAS CHANGED"), "{error}");
    assert_eq!(server.port(), port);
}

#[test]
fn a_stopped_server_leaves_no_process_and_refuses_connections_until_it_is_restarted() {
    let mut server = SshServer::start(&SshServerOptions::default()).unwrap();
    // One command belongs to the session, one left it and keeps its output open, and one left it completely.
    let commands = "setsid -f sleep 1000; setsid -f sleep 1000 >/dev/null 2>&1 </dev/null; \
                    echo started; sleep 1000; true";
    let mut command = ssh(server.client_config());
    command.args(["far", commands]);
    let mut client = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut printed = BufReader::new(client.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    // The server, its part for the session, the shell, and three times `sleep`. Some versions have more parts.
    let processes = eventually(|| {
        let found = server.processes();
        if found.len() >= 6 { Ok(found) } else { Err(found) }
    });
    server.stop();
    for id in processes {
        assert!(!processes::is_running(id), "{id} is left");
    }
    assert_eq!(server.processes(), BTreeSet::new());
    assert_eq!(client.wait().unwrap().code(), Some(255));
    assert_eq!(run_far(&server, "true").status.code(), Some(255));
    server.restart().unwrap();
    assert_eq!(print_far(&server, "echo again"), "again\n");
}

#[test]
fn a_server_that_is_dropped_leaves_no_process() {
    let server = SshServer::start(&SshServerOptions::default()).unwrap();
    print_far(&server, "(setsid sleep 1000 &) >/dev/null 2>&1 </dev/null");
    let folder = server.folder.path().to_owned();
    // The part of the server for the session may end a little later.
    let processes = eventually(|| {
        let found = server.processes();
        if found.len() == 2 { Ok(found) } else { Err(found) }
    });
    drop(server);
    for id in processes {
        assert!(!processes::is_running(id), "{id} is left");
    }
    assert!(!folder.exists());
}

#[test]
fn the_number_of_sessions_of_a_connection_is_limited() {
    let check = |max_sessions, expected: Result<&str, &str>| {
        let options = SshServerOptions { max_sessions, ..Default::default() };
        let server = SshServer::start(&options).unwrap();
        let socket = server.path("master");
        let mut command = ssh(server.client_config());
        command.args(["-M", "-S"]).arg(&socket).args(["far", "echo first; cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut first = command.spawn().unwrap();
        let mut printed = BufReader::new(first.stdout.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        assert_eq!(line, "first\n");
        // The client would make a connection of its own when the session is refused.
        let mut command = ssh(server.client_config());
        command.arg("-S").arg(&socket).args(["-o", "ProxyCommand=false", "far", "echo second"]);
        let second = command.output().unwrap();
        let error = String::from_utf8(second.stderr).unwrap();
        match expected {
            Ok(output) => {
                assert!(second.status.success(), "{max_sessions:?}: {error}");
                assert_eq!(String::from_utf8(second.stdout).unwrap(), output);
            }
            Err(expected) => {
                assert!(!second.status.success(), "{max_sessions:?}");
                assert!(error.contains(expected), "{error}");
            }
        }
        drop(first.stdin.take());
        assert!(first.wait().unwrap().success());
    };
    check(None, Ok("second\n"));
    check(Some(2), Ok("second\n"));
    check(Some(1), Err("Session open refused by peer"));
}

#[test]
fn a_client_reaches_the_server_through_a_proxy() {
    let server = SshServer::start(&SshServerOptions::default()).unwrap();
    let proxy = TcpProxy::start(server.port()).unwrap();
    proxy.set_delay(Duration::from_millis(5));
    let config = server.client_config_through(proxy.port()).unwrap();
    let mut command = ssh(&config);
    command.args(["far", "echo started; cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.stderr(Stdio::null()).spawn().unwrap();
    let mut printed = BufReader::new(client.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    proxy.cut();
    assert_eq!(client.wait().unwrap().code(), Some(255));
    assert_eq!(ssh(&config).args(["far", "true"]).output().unwrap().status.code(), Some(255));
    proxy.mend();
    assert!(ssh(&config).args(["far", "true"]).status().unwrap().success());
}

#[test]
fn a_server_that_does_not_start_returns_its_log() {
    let mut server = SshServer::start(&SshServerOptions::default()).unwrap();
    fs::write(server.path("sshd_config"), "NoSuchOption yes\n").unwrap();
    let error = server.restart().unwrap_err().to_string();
    assert!(error.contains("exit status") && error.contains("NoSuchOption"), "{error}");
}

#[test]
fn a_word_of_a_configuration_is_quoted() {
    assert_eq!(quoted(r#"A=b "c" \d"#), r#""A=b \"c\" \\d""#);
}

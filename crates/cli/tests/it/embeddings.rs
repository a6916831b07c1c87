//! Tests of embedding endpoints: from the settings in `config.toml` to the requests.

use std::fs;
use std::io::{Read as _, Write as _};
use std::time::Instant;

use serde_json::{Value, json};
use testkit::{EmbeddingReply, EmbeddingServer, TlsProxy, eventually};

use crate::daemon::{Daemon, PATIENCE, TOKEN};
use crate::sandbox::Sandbox;

/// A prompt about the harbour in words that no memory contains.
const QUAY: &str = "wer leitet den Kai?";

fn server() -> EmbeddingServer {
    EmbeddingServer::start(|text| {
        let is_harbour = text.contains("harbour") || text.contains("Kai");
        if is_harbour { vec![1.0, 0.0] } else { vec![0.0, 1.0] }
    })
    .unwrap()
}

fn settings(server: &EmbeddingServer, more: &str) -> String {
    format!("[embeddings]\nurl = \"{}\"\nmodel = \"small\"\n{more}", server.url())
}

fn filled(server: &EmbeddingServer, more: &str) -> Sandbox {
    let place = Sandbox::new();
    fs::write(place.home().join("config.toml"), settings(server, more)).unwrap();
    place.create("project/harbour.md", "- The harbour master of Brenn is called Olga Tveit.\n");
    place.create("global/bread.md", "- The sourdough rests for eleven hours.\n");
    place.create("project/tests.md", "- Integration tests need the variable TARN_URL.\n");
    place
}

#[test]
fn recall_finds_by_vectors_and_explains_it() {
    let server = server();
    let place = filled(&server, "");
    assert_eq!(server.requests().len(), 0, "writing sends nothing");
    insta::assert_snapshot!(place.run_ok(&["recall", "--explain", QUAY]), @r"
    project/harbour.md  0.88, saved today
      is near to the prompt as a whole (1.00)
      - The harbour master of Brenn is called Olga Tveit.
    ");
    let sent = server.texts().len();
    assert_eq!(sent, 4, "three entries and a prompt");
    place.run_ok(&["recall", QUAY]);
    assert_eq!(server.texts()[sent..], [QUAY], "vectors of entries are kept");
}

#[test]
fn a_checkout_cannot_name_an_endpoint() {
    let server = server();
    let place = Sandbox::new();
    place.create("project/harbour.md", "- The harbour master of Brenn is called Olga Tveit.\n");
    let planted = settings(&server, "");
    for name in [
        "config.toml",
        "lukasa.toml",
        ".lukasa.toml",
        ".lukasa/config.toml",
        ".lukasa/memory/config.toml",
    ] {
        fs::write(place.checkout().join(name), &planted).unwrap();
    }
    let front = format!("---\nname: embeddings\nurl: {}\nmodel: small\n---\n- x\n", server.url());
    fs::write(place.checkout().join(".lukasa/memory/embeddings.md"), front).unwrap();
    let env = format!("LUKASA_EMBEDDINGS_URL={}\nOPENAI_BASE_URL={}\n", server.url(), server.url());
    fs::write(place.checkout().join(".env"), env).unwrap();
    place.run_ok(&["recall", "who is the harbour master?"]);
    assert_eq!(place.run(&["recall", QUAY]).status, 1);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn the_key_is_read_from_the_environment_and_shown_nowhere() {
    let server = server();
    let place = filled(&server, "key_variable = \"TEST_KEY\"\n");
    let mut recall = place.lukasa(&["recall", "-vv", QUAY]);
    let ended = place.run_command(recall.env("TEST_KEY", "sk-very-secret"));
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(!ended.shown().contains("very-secret"), "{}", ended.shown());
    for sent in server.requests() {
        let head = sent.head.to_lowercase();
        assert!(head.contains("authorization: bearer sk-very-secret\r\n"), "{head}");
    }
    server.set_reply(EmbeddingReply::Status(401));
    let mut recall = place.lukasa(&["recall", "-vv", "und der Kai?"]);
    let ended = place.run_command(recall.env("TEST_KEY", "sk-very-secret"));
    assert!(!ended.shown().contains("very-secret"), "{}", ended.shown());
    assert!(ended.stderr.contains("the endpoint answered with status 401"), "{}", ended.stderr);
}

#[test]
fn without_the_key_recall_uses_words_and_reports_it_once() {
    let server = server();
    let place = filled(&server, "key_variable = \"TEST_KEY\"\n");
    let ended = place.run(&["recall", "who is the harbour master?"]);
    assert_eq!(ended.status, 0);
    assert_eq!(
        ended.stderr.matches("the environment variable `TEST_KEY` holds no key").count(),
        1,
        "{}",
        ended.stderr
    );
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn an_encrypted_endpoint_is_asked_if_this_machine_trusts_it() {
    let server = server();
    let encrypted = TlsProxy::start(server.address()).unwrap();
    let place = filled(&server, "");
    let text = settings(&server, "").replace(&server.url(), &encrypted.url());
    fs::write(place.home().join("config.toml"), text).unwrap();
    let distrusted = place.run(&["recall", QUAY]);
    assert!(distrusted.stderr.contains("invalid peer certificate"), "{}", distrusted.stderr);
    assert_eq!(server.requests().len(), 0);
    let certificate = place.path().join("authority.pem");
    fs::write(&certificate, encrypted.certificate()).unwrap();
    let mut command = place.lukasa(&["recall", QUAY]);
    let trusted = place.run_command(command.env("SSL_CERT_FILE", certificate));
    assert_eq!(trusted.status, 0, "{}", trusted.stderr);
    assert!(trusted.stdout.contains("Olga Tveit"), "{}", trusted.stdout);
}

/// Sends a hook event of Claude Code; returns the answer.
fn hook(place: &Sandbox, event: &str, more: &Value) -> String {
    let mut told = json!({ "session_id": "s-1", "cwd": place.checkout(), "transcript_path": "/t" });
    let fields = told.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    let ended = place.run_with(&["hook", event, "--agent", "claude-code"], &told.to_string());
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    ended.stdout
}

fn prompt(place: &Sandbox, text: &str) -> String {
    hook(place, "user-prompt", &json!({ "hook_event_name": "UserPromptSubmit", "prompt": text }))
}

#[test]
fn a_hook_that_finds_no_daemon_sends_nothing_and_answers_by_words() {
    let server = server();
    let place = filled(&server, "");
    place.run_ok(&["recall", QUAY]);
    let before = server.requests().len();
    assert_eq!(prompt(&place, QUAY), "");
    assert!(prompt(&place, "who is the harbour master?").contains("Olga Tveit"));
    assert_eq!(server.requests().len(), before);
}

#[test]
fn a_prompt_is_cancelled_with_its_connection_if_the_host_asks_for_that() {
    let server = server();
    let place = filled(&server, "");
    let mut command = Daemon::command(&place, &[]);
    command.env("LUKASA_TOKEN", TOKEN);
    let daemon = Daemon::start_by(command);
    assert_eq!(daemon.post("/v1/sessions", &json!({ "sessionId": "talk" })).status, 200);
    // Until the entries have vectors.
    let is_found = || daemon.get("/v1/recall?q=Kai").text().contains("Olga Tveit");
    eventually(|| is_found().then_some(()).ok_or("nothing is found by vectors"));
    // The endpoint no longer answers, so a search runs until it is cancelled. Hooks rely on the fact that a search
    // without this setting continues.
    server.set_reply(EmbeddingReply::Nothing);
    let sent = server.requests().len();
    let prompt = json!({ "text": "wer war am Kai?", "cancelWithConnection": true }).to_string();
    let request = format!(
        "POST /v1/sessions/talk/prompts HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n{prompt}",
        prompt.len()
    );
    let mut connection = daemon.connect();
    connection.write_all(request.as_bytes()).unwrap();
    let (mut answer, mut bytes) = (String::new(), [0; 4_096]);
    while !answer.ends_with("{}") {
        let count = connection.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    server.wait_for_requests(sent + 1);
    drop(connection);
    server.wait_for_disconnects(1);
    server.set_reply(EmbeddingReply::Vectors);
    let shown = daemon.post("/v1/sessions/talk/tool-results", &json!({}));
    assert_eq!(shown.json(), json!({}));
}

#[test]
fn with_a_daemon_the_results_of_the_endpoint_come_after_a_tool() {
    let server = server();
    let place = filled(&server, "");
    // Its token is in its file, where hooks find it.
    let _daemon = Daemon::start_by(Daemon::command(&place, &[]));
    let (began, mut shown, mut asked) = (Instant::now(), String::new(), 0);
    let used = json!({ "hook_event_name": "PostToolUse", "tool_name": "Read", "tool_input": {} });
    // The first prompts may come before entries have vectors; then the ranking uses words only.
    while !shown.contains("Olga Tveit") {
        assert!(began.elapsed() < PATIENCE, "{shown}");
        asked += 1;
        shown = prompt(&place, &format!("{QUAY} {}", "!".repeat(asked)));
        for _ in 0..5 {
            shown.push_str(&hook(&place, "post-tool-use", &used));
        }
    }
}

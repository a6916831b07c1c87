//! Tests of the MCP tools: their list, the results of calls, and the provenance in history.

use std::fs;

use engine::{Caller, ChangesQuery};
use lukasa_server::mcp::McpConfig;
use memory::access::AgentClass;
use memory::change::Provenance;
use serde_json::{Value, json};

use crate::client::{NEWEST, TestClient, WITH_HANDSHAKE};
use crate::world::TestHome;

/// The most tokens that the list of tools may cost a model. Three bytes per token is a cautious estimate for English
/// and JSON.
const LIST_TOKENS_MAX: usize = 1_500;

fn reader(world: &TestHome) -> McpConfig {
    let provenance = Provenance::agent("mcp");
    McpConfig { caller: Caller::new(AgentClass::Explore, provenance), ..world.config() }
}

#[tokio::test]
async fn the_list_has_the_same_four_tools_for_every_caller_and_revision() {
    let world = TestHome::new();
    let mut lists = Vec::new();
    for revision in WITH_HANDSHAKE.into_iter().chain([NEWEST]) {
        for host in [world.config(), reader(&world)] {
            let mut client = TestClient::with_revision(host, revision).await;
            lists.push(client.request("tools/list", json!({})).await["tools"].take());
        }
    }
    let first = lists.first().unwrap();
    assert!(lists.iter().all(|list| list == first));
    assert!(first.to_string().len() / 3 < LIST_TOKENS_MAX, "{} bytes", first.to_string().len());
    let [tool, recall, view, save] = &first.as_array().unwrap()[..] else {
        panic!("not four tools: {first}")
    };
    assert_eq!(
        [&view["name"], &view["inputSchema"], &view["annotations"]["readOnlyHint"]],
        [&json!("view_memory"), &memory::tool::view::schema(), &json!(true)]
    );
    assert_eq!(
        [&recall["name"], &recall["inputSchema"], &recall["annotations"]["readOnlyHint"]],
        [&json!("recall"), &memory::tool::recall::schema(), &json!(true)]
    );
    assert_eq!(
        [&save["name"], &save["description"], &save["inputSchema"]],
        [
            &json!("save_memory"),
            &json!(memory::tool::save::DESCRIPTION),
            &memory::tool::save::schema(),
        ]
    );
    assert_eq!(tool["inputSchema"], memory::tool::schema());
    assert_eq!(tool["description"], memory::tool::DESCRIPTION);
    assert_eq!(
        [&tool["name"], &tool["title"], &tool["annotations"], &tool["outputSchema"]],
        [
            &json!("memory"),
            &json!("Memory"),
            &json!({
                "title": "Memory",
                "readOnlyHint": false,
                "destructiveHint": true,
                "idempotentHint": false,
                "openWorldHint": false,
            }),
            &Value::Null,
        ]
    );
}

#[tokio::test]
async fn a_flat_folder_has_its_own_description() {
    let world = TestHome::new();
    let mut binding = world.config().binding;
    binding.flat = Some(world.folder().join("flat"));
    let mut client =
        TestClient::with_revision(McpConfig { binding, ..world.config() }, NEWEST).await;
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["description"], memory::tool::FLAT_DESCRIPTION);
    assert_eq!(listed["tools"][1]["name"], "recall");
    assert_eq!(listed["tools"][2]["name"], "view_memory");
    assert_eq!(listed["tools"][3], Value::Null, "there are no context files");
    let save = json!({ "name": "save_memory", "arguments": { "fact": "x", "scope": "global" } });
    assert_eq!(client.request("tools/call", save).await["error"]["code"], -32602);
    client.create("/memories/a.md", "flat\n").await;
    assert_eq!(fs::read_to_string(world.folder().join("flat/a.md")).unwrap(), "flat\n");
}

/// Returns the text of a result, whether it is an error, and its facts without the values that differ from run to run.
/// Checks that there is no structured content, which hosts would show in place of the text.
fn decode_result(result: &Value) -> (String, bool, Value) {
    assert!(result.get("structuredContent").is_none(), "{result}");
    let mut facts = result["_meta"]["lukasa"].clone();
    if let Some(fields) = facts.as_object_mut() {
        assert!(!fields.contains_key("revision"), "{result}");
        if fields.contains_key("change") {
            fields.insert("change".to_owned(), json!("…"));
        }
    }
    let [content] = &result["content"].as_array().unwrap()[..] else { panic!("{result}") };
    assert_eq!(content["type"], "text");
    let text = content["text"].as_str().unwrap().to_owned();
    (text, result["isError"].as_bool().unwrap(), facts)
}

#[tokio::test]
async fn the_six_commands_answer_in_every_revision() {
    for revision in WITH_HANDSHAKE.into_iter().chain([NEWEST]) {
        let world = TestHome::new();
        let mut client = TestClient::with_revision(world.config(), revision).await;
        let path = "/memories/global/a.md";
        let changed = json!({ "ok": true, "change": "…" });
        let viewed = json!({ "ok": true });
        for (arguments, text, facts) in [
            (
                json!({ "command": "create", "path": path, "file_text": "one\ntwo\n" }),
                "File created successfully at: /memories/global/a.md",
                &changed,
            ),
            (
                json!({ "command": "view", "path": path }),
                "Here's the content of /memories/global/a.md with line numbers:\n     1\tone\n     \
                 2\ttwo\n     3\t",
                &viewed,
            ),
            (
                json!({ "command": "str_replace", "path": path, "old_str": "two", "new_str": "2" }),
                "The memory file has been edited. Here is the snippet showing the change (with \
                 line numbers):\n     1\tone\n     2\t2\n     3\t",
                &changed,
            ),
            (
                json!({ "command": "insert", "path": path, "insert_line": 0, "insert_text": "0" }),
                "The file /memories/global/a.md has been edited.",
                &changed,
            ),
            (
                json!({ "command": "rename", "old_path": path, "new_path": "/memories/global/b.md" }),
                "Successfully renamed /memories/global/a.md to /memories/global/b.md",
                &changed,
            ),
            (
                json!({ "command": "delete", "path": "/memories/global/b.md" }),
                "Successfully deleted /memories/global/b.md",
                &changed,
            ),
        ] {
            let result = client.call(arguments.clone()).await;
            let expected = (text.to_owned(), false, facts.clone());
            assert_eq!(decode_result(&result), expected, "{revision} {arguments}");
            assert_eq!(result["resultType"].is_null(), revision != NEWEST);
        }
    }
}

#[tokio::test]
async fn view_memory_returns_the_result_of_view_and_ignores_other_commands() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), NEWEST).await;
    client.create("/memories/global/a.md", "one\n").await;
    let path = "/memories/global/a.md";
    let arguments = json!({ "command": "delete", "path": path });
    let call = json!({ "name": "view_memory", "arguments": arguments });
    let viewed = client.request("tools/call", call).await;
    let expected = client.call(json!({ "command": "view", "path": path })).await;
    assert_eq!(viewed["content"], expected["content"]);
    assert_eq!(viewed["isError"], false, "{viewed}");
}

#[tokio::test]
async fn a_refusal_is_a_tool_result_with_its_code() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
    client.create("/memories/global/a.md", "one\n").await;
    for (arguments, text, code) in [
        (
            json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "x" }),
            "File /memories/global/a.md already exists",
            "already_exists",
        ),
        (
            json!({ "command": "create" }),
            "create requires 'path' and 'file_text'",
            "invalid_arguments",
        ),
        (
            json!({ "command": "view", "path": "/memories/global/none.md" }),
            "The path /memories/global/none.md does not exist. Please provide a valid path.",
            "not_found",
        ),
        (
            json!({ "command": "view", "path": "/etc/passwd" }),
            "Path must start with /memories, got: /etc/passwd",
            "invalid_path",
        ),
        (
            json!({ "command": "create", "path": "/memories/project/a.md", "file_text": "x" }),
            "Project memory is unavailable: no project is associated with this session",
            "scope_unavailable",
        ),
    ] {
        let result = client.call(arguments).await;
        assert_eq!(
            decode_result(&result),
            (text.to_owned(), true, json!({ "ok": false, "code": code }))
        );
    }
    let result = client.request("tools/call", json!({ "name": "memory" })).await;
    assert_eq!(result["_meta"]["lukasa"]["code"], "invalid_arguments");
}

#[tokio::test]
async fn the_refusal_of_a_secret_does_not_repeat_it() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), NEWEST).await;
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4).get(..36).unwrap());
    let create = json!({
        "command": "create", "path": "/memories/global/a.md", "file_text": format!("key {secret}"),
    });
    let result = client.call(create).await;
    assert_eq!(result["_meta"]["lukasa"]["code"], "screened", "{result}");
    assert!(!result.to_string().contains(&secret), "{result}");
}

#[tokio::test]
async fn a_write_of_a_read_only_caller_is_refused() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(reader(&world), "2025-06-18").await;
    let create = json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "x" });
    assert_eq!(
        decode_result(&client.call(create).await),
        (
            "The global memory scope is read-only for this agent; only 'view' is allowed."
                .to_owned(),
            true,
            json!({ "ok": false, "code": "read_only" }),
        )
    );
}

#[tokio::test]
async fn an_unknown_tool_is_a_protocol_error() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), NEWEST).await;
    let answer = client.request("tools/call", json!({ "name": "shell", "arguments": {} })).await;
    assert_eq!(
        answer["error"],
        json!({ "code": -32602, "message": "unknown tool `shell`; there are `memory`, `recall`, `view_memory`, `save_memory`" })
    );
}

#[tokio::test]
async fn a_fault_is_a_tool_result_that_names_no_folder() {
    let world = TestHome::new();
    // A folder in place of the state database makes it unusable.
    fs::create_dir_all(world.state_folder().join("lukasa.db/in the way")).unwrap();
    let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
    let create = json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "x" });
    let result = client.call(create).await;
    assert_eq!(
        decode_result(&result),
        (
            "A file or the state database cannot be read or written.".to_owned(),
            true,
            json!({ "ok": false, "code": "storage_failed" }),
        )
    );
    let folder = world.folder().display().to_string();
    assert!(!result.to_string().contains(&folder), "{result}");
}

/// Makes one call with this `_meta`; returns the client, session and tool call that history records.
async fn recorded_provenance(
    revision: &str,
    host_session: Option<&str>,
    meta: Value,
) -> [Option<String>; 3] {
    let world = TestHome::new();
    let mut host = world.config();
    host.caller.provenance.session = host_session.map(str::to_owned);
    let mut client = TestClient::with_revision(host, revision).await;
    let create =
        json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "x\n" });
    let params = json!({ "name": "memory", "arguments": create, "_meta": meta });
    let created = client.request("tools/call", params).await;
    assert_eq!(created["isError"], false, "{created}");
    let host = world.config();
    let memories = host.engine.memories(&host.binding, host.caller);
    let query = ChangesQuery { max: 1, ..ChangesQuery::default() };
    let provenance = memories.changes(&query).await.unwrap().remove(0).provenance;
    [provenance.client, provenance.session, provenance.tool_call]
}

#[tokio::test]
async fn history_records_client_session_and_tool_call() {
    let some = |text: &str| Some(text.to_owned());
    for revision in ["2024-11-05", "2025-11-25", NEWEST] {
        let first = if revision == NEWEST { "1" } else { "2" };
        let [client, session, call] = recorded_provenance(revision, None, json!({})).await;
        assert_eq!([client, call], [some("test/1"), some(first)], "{revision}");
        // Over pipes, the server process is the session.
        assert_eq!(session.unwrap().len(), 12, "{revision}");
        let claude = json!({ "claudecode/toolUseId": "toolu_01", "progressToken": 7 });
        assert_eq!(
            recorded_provenance(revision, some("flag").as_deref(), claude).await,
            [some("test/1"), some("flag"), some("toolu_01")],
            "{revision}"
        );
        let codex = json!({ "threadId": "thread\n9", "callId": "call_9" });
        assert_eq!(
            recorded_provenance(revision, None, codex).await,
            [some("test/1"), some("thread9"), some("call_9")],
            "{revision}"
        );
    }
}

#[tokio::test]
async fn concurrent_calls_are_all_executed_and_answered() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), NEWEST).await;
    let mut calls = Vec::new();
    for n in 0..50 {
        let path = format!("/memories/global/{n}.md");
        let create = json!({ "command": "create", "path": path, "file_text": "x\n" });
        let params = json!({ "name": "memory", "arguments": create });
        calls.push(client.ask("tools/call", params).await);
    }
    for call in calls {
        assert_eq!(client.answer(call).await["isError"], false);
    }
    let listed = client.request("resources/list", json!({})).await;
    let names = listed["resources"].as_array().unwrap();
    assert_eq!(names.iter().filter(|one| one["name"] != "global/MEMORY.md").count(), 50);
}

/// Calls `save_memory`; returns the text, whether it is an error, and the code or scope.
async fn save(client: &mut TestClient, arguments: Value) -> (String, bool, Value) {
    let call = json!({ "name": "save_memory", "arguments": arguments });
    let (text, is_error, facts) = decode_result(&client.request("tools/call", call).await);
    let fact = if is_error { &facts["code"] } else { &facts["scope"] };
    (text, is_error, fact.clone())
}

fn in_project(world: &TestHome) -> (McpConfig, std::path::PathBuf) {
    let project = world.project("app");
    let mut host = world.config();
    host.binding.project = Some(project.clone().into());
    (host, project)
}

#[tokio::test]
async fn a_fact_is_saved_to_the_file_of_its_scope_in_every_revision() {
    for revision in WITH_HANDSHAKE.into_iter().chain([NEWEST]) {
        let world = TestHome::new();
        let (host, project) = in_project(&world);
        let mut client = TestClient::with_revision(host, revision).await;
        let added =
            |scope: &str| (format!("Added to the {scope} instruction file."), false, json!(scope));
        let arguments = json!({ "fact": "- Builds with make", "scope": "project" });
        assert_eq!(save(&mut client, arguments).await, added("project"));
        let arguments = json!({ "fact": "Likes tea", "scope": "global" });
        assert_eq!(save(&mut client, arguments).await, added("global"));
        let text = |folder: &std::path::Path| fs::read_to_string(folder.join("AGENTS.md")).unwrap();
        assert_eq!(text(&project), "## Lukasa Added Memories\n- Builds with make\n");
        assert_eq!(text(&world.data_folder()), "## Lukasa Added Memories\n- Likes tea\n");
    }
}

#[tokio::test]
async fn a_fact_is_saved_once_to_the_existing_file_or_the_one_that_the_host_loads() {
    for (name, there, file) in [
        ("claude-code", None, "CLAUDE.md"),
        ("gemini-cli-mcp-client", Some("QWEN.md"), "QWEN.md"),
        ("codex-mcp-client", Some("CLAUDE.md"), "CLAUDE.md"),
        ("codex-mcp-client", None, "AGENTS.md"),
    ] {
        let world = TestHome::new();
        let (host, project) = in_project(&world);
        if let Some(there) = there {
            fs::write(project.join(there), "").unwrap();
        }
        let mut client = TestClient::connect(host);
        let info = json!({ "name": name, "version": "2" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        client.request("initialize", params).await;
        client.notify("notifications/initialized", json!({})).await;
        let fact = json!({ "fact": "Builds with make", "scope": "project" });
        assert!(save(&mut client, fact.clone()).await.0.starts_with("Added to"), "{name}");
        let (again, is_error, _) = save(&mut client, fact).await;
        assert!(!is_error && again.contains("stands in the project instruction file already"));
        let text = fs::read_to_string(project.join(file)).unwrap();
        assert_eq!(text, "## Lukasa Added Memories\n- Builds with make\n", "{name} {there:?}");
    }
}

#[tokio::test]
async fn a_fact_edited_by_the_user_is_saved_as_edited() {
    let world = TestHome::new();
    let (host, project) = in_project(&world);
    let file = project.join("AGENTS.md");
    let mut client = TestClient::with_revision(host, NEWEST).await;
    let mut edited = async |content: &str| {
        let arguments = json!({
            "fact": "Builds with make", "scope": "project",
            "modified_by_user": true, "modified_content": content,
        });
        let call = json!({ "name": "save_memory", "arguments": arguments });
        let result = client.request("tools/call", call).await;
        let is_saved = result["isError"] != true;
        (is_saved, result["content"][0]["text"].as_str().unwrap().to_owned())
    };
    assert!(edited("Builds with just").await.0);
    let one = "## Lukasa Added Memories\n- Builds with just\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), one);
    // Other hosts let the user edit the whole file.
    let whole = format!("# Rules\n\n{one}- Tests with nextest\n");
    assert!(edited(&whole).await.0);
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    let (is_saved, text) = edited("## Lukasa Added Memories\n- All else is gone\n").await;
    assert!(!is_saved && text.contains("only adds"), "{text}");
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
}

#[tokio::test]
async fn a_fact_without_a_scope_is_not_saved_and_the_result_names_both_files() {
    let world = TestHome::new();
    let (host, project) = in_project(&world);
    fs::write(project.join("AGENTS.md"), "rules\n").unwrap();
    let mut client = TestClient::with_revision(host, NEWEST).await;
    let (text, is_error, code) = save(&mut client, json!({ "fact": "x" })).await;
    let global = fs::canonicalize(world.folder()).unwrap().join("data/AGENTS.md");
    let project = fs::canonicalize(&project).unwrap();
    let expected = format!(
        "Nothing is saved yet. Ask the person which file is meant, then call again:\n\
         - `scope: \"project\"` adds it to {}\n- `scope: \"global\"` adds it to {}",
        project.join("AGENTS.md").display(),
        global.display()
    );
    assert_eq!((text, is_error, code), (expected, true, json!("invalid_arguments")));
    assert_eq!(fs::read_to_string(project.join("AGENTS.md")).unwrap(), "rules\n");
    assert!(!global.exists());
}

/// Saves a fact without a scope for a client with elicitation, and answers the elicitation.
async fn save_after_elicitation(answer: Value) -> (String, bool, TestHome) {
    let world = TestHome::new();
    let (host, _) = in_project(&world);
    let mut client = TestClient::connect(host);
    client.begin("2025-11-25", json!({ "elicitation": {} })).await;
    let call = json!({ "name": "save_memory", "arguments": { "fact": "Likes tea" } });
    let call = client.ask("tools/call", call).await;
    let (id, request) = client.wait_for_request_with_id("elicitation/create").await;
    let schema = &request["requestedSchema"];
    assert_eq!(schema["properties"]["scope"]["enum"], json!(["project", "global"]), "{request}");
    assert_eq!(schema["required"], json!(["scope"]));
    assert!(request["message"].as_str().unwrap().contains("Likes tea"), "{request}");
    client.respond(id, answer).await;
    let (text, is_error, _) = decode_result(&client.answer(call).await);
    (text, is_error, world)
}

#[tokio::test]
async fn a_client_with_elicitation_asks_its_user_which_file_is_meant() {
    let chosen = json!({ "action": "accept", "content": { "scope": "global" } });
    let (text, is_error, world) = save_after_elicitation(chosen).await;
    assert_eq!((text.as_str(), is_error), ("Added to the global instruction file.", false));
    let saved = fs::read_to_string(world.data_folder().join("AGENTS.md")).unwrap();
    assert_eq!(saved, "## Lukasa Added Memories\n- Likes tea\n");
    for action in ["decline", "cancel"] {
        let (text, is_error, world) = save_after_elicitation(json!({ "action": action })).await;
        assert!(is_error && text.contains("does not want"), "{text}");
        assert!(!world.data_folder().join("AGENTS.md").exists());
    }
    for nonsense in [
        json!({ "action": "accept" }),
        json!({ "action": "accept", "content": { "scope": "elsewhere" } }),
        json!({}),
    ] {
        let (text, is_error, world) = save_after_elicitation(nonsense).await;
        assert!(is_error && text.starts_with("Nothing is saved yet."), "{text}");
        assert!(!world.data_folder().join("AGENTS.md").exists());
    }
}

#[tokio::test]
async fn a_refused_fact_is_not_written() {
    let world = TestHome::new();
    let (host, project) = in_project(&world);
    let mut client = TestClient::with_revision(host.clone(), NEWEST).await;
    let secret = format!("use ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let of_project = |fact: &str| json!({ "fact": fact, "scope": "project" });
    let (text, is_error, code) = save(&mut client, of_project(&secret)).await;
    assert_eq!((is_error, code), (true, json!("screened")));
    assert!(!text.contains("ghp_"), "{text}");
    assert_eq!(save(&mut client, json!({ "scope": "global" })).await.2, "invalid_arguments");
    let mut reading = TestClient::with_revision(
        McpConfig { caller: reader(&world).caller, ..host.clone() },
        NEWEST,
    )
    .await;
    assert_eq!(save(&mut reading, of_project("x")).await.2, "read_only");
    let mut frozen = host;
    frozen.binding.read_only = true;
    let mut frozen = TestClient::with_revision(frozen, NEWEST).await;
    assert_eq!(save(&mut frozen, of_project("x")).await.2, "read_only");
    let mut nowhere = TestClient::with_revision(world.config(), NEWEST).await;
    assert_eq!(save(&mut nowhere, of_project("x")).await.2, "scope_unavailable");
    let text = save(&mut nowhere, json!({ "fact": "x" })).await.0;
    assert!(text.contains("global") && !text.contains("project"), "{text}");
    assert!(!project.join("AGENTS.md").exists());
}

#[tokio::test]
async fn recall_returns_the_memories_that_fit_or_a_text_that_none_does() {
    for revision in WITH_HANDSHAKE.into_iter().chain([NEWEST]) {
        let world = TestHome::new();
        let mut client = TestClient::with_revision(reader(&world), revision).await;
        let mut writer = TestClient::with_revision(world.config(), revision).await;
        for (name, text) in [
            ("harbour", "- The harbour master of Brenn is called Olga.\n"),
            ("bread", "- The sourdough rests for eleven hours.\n"),
        ] {
            let path = format!("/memories/global/{name}.md");
            let create = json!({ "command": "create", "path": path, "file_text": text });
            let call = json!({ "name": "memory", "arguments": create });
            writer.request("tools/call", call).await;
        }
        let mut ask = async |prompt: &str| {
            let arguments = json!({ "prompt": prompt });
            let call = json!({ "name": "recall", "arguments": arguments });
            decode_result(&client.request("tools/call", call).await)
        };
        let (text, is_error, facts) = ask("who is the harbour master?").await;
        assert!(!is_error && text.starts_with("<recalled_memories>\n"), "{text}");
        assert!(text.contains("is called Olga.") && !text.contains("sourdough"), "{text}");
        let [memory] = facts["memories"].as_array().unwrap().as_slice() else { panic!("{facts}") };
        assert_eq!(memory["path"], "/memories/global/harbour.md");
        assert_eq!(memory["weak"], false);
        assert!(memory["score"].as_f64().unwrap() >= 0.5, "{memory}");
        let (text, is_error, facts) = ask("what do penguins eat in winter?").await;
        assert_eq!((text.as_str(), is_error), ("No memory fits.", false));
        assert_eq!(facts["memories"], json!([]));
        let (text, is_error, _) = ask(" ").await;
        assert!(is_error && text.contains("recall requires 'prompt'"), "{text}");
    }
}

//! Tests of the OpenAPI description against the code and the promised routes, and of its page.

use std::collections::BTreeSet;

use serde_json::Value;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, SecurityRequirement};

use super::*;

/// The environment variable that makes the test write the embedded description instead of comparing it.
const WRITE: &str = "LUKASA_WRITE_OPENAPI";

fn described() -> OpenApi {
    let routes = routes().into_description();
    let info = InfoBuilder::new()
        .title("Lukasa")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "A memory for AI coding agents. The task routes follow the API of published clients, MCP is at \
             `/mcp`, everything else is below `/v1`. Every error is an `ErrorBody`, except the errors of \
             MCP itself.",
        ))
        .license(Some(
            LicenseBuilder::new()
                .name("MIT OR Apache-2.0")
                .identifier(Some("MIT OR Apache-2.0"))
                .build(),
        ))
        .build();
    let mut document = OpenApiBuilder::from(routes)
        .info(info)
        .security(Some([SecurityRequirement::new("token", Vec::<String>::new())]))
        .build();
    // OpenAPI has no wildcard: `{*path}` is the router's syntax.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let components = document.components.get_or_insert_default();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("token", bearer);
    document
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the file is a source of this crate")]
fn the_embedded_description_is_what_the_code_declares() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/openapi/document.json");
    let declared = serde_json::to_string(&described()).unwrap() + "\n";
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, declared).unwrap();
        return;
    }
    let embedded = std::fs::read_to_string(path).unwrap();
    assert!(embedded == declared, "out of date: run `cargo xtask docs`");
}

/// The routes of `/v1` and of the page.
const OURS: &str = "
delete /v1/memories/{path}
delete /v1/pins/{path}
delete /v1/sessions/{id}
delete /v1/tokens/{id}
delete /v1/workspaces/{id}
get /ui
get /ui/
get /ui/{file}
get /v1/changes
get /v1/changes/{id}
get /v1/context
get /v1/events
get /v1/export
get /v1/health/memories
get /v1/hosts
get /v1/memories
get /v1/memories/{path}
get /v1/pending
get /v1/pending/{id}
get /v1/recall
get /v1/revisions/{revision}
get /v1/runs
get /v1/runs/models
get /v1/search
get /v1/settings
get /v1/stats
get /v1/tasks
get /v1/tokens
get /v1/trust
get /v1/workspaces
post /ui/session
post /ui/tickets
post /v1/batch
post /v1/changes/{id}/undo
post /v1/health/memories/repair
post /v1/import
post /v1/memories/move
post /v1/pending/accept
post /v1/pending/reject
post /v1/sessions
post /v1/sessions/{id}/compactions
post /v1/sessions/{id}/prompts
post /v1/sessions/{id}/resets
post /v1/sessions/{id}/tool-results
post /v1/sessions/{id}/turns
post /v1/tokens
post /v1/tool
post /v1/undo
put /v1/memories/{path}
put /v1/pins/{path}
put /v1/settings/{key}
put /v1/trust
";

#[test]
fn the_description_is_openapi_3_1_and_has_exactly_the_promised_routes() {
    let value = document();
    assert_eq!(value["openapi"], "3.1.0");
    let paths = value["paths"].as_object().unwrap();
    let named: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    // All other routes are the API of published clients, and are kept in a snapshot.
    let (ours, published): (Vec<_>, Vec<_>) =
        named.into_iter().partition(|route| route.contains(" /v1/") || route.contains(" /ui"));
    assert_eq!(ours.join("\n"), OURS.trim());
    insta::assert_snapshot!(published.join("\n"), @r"
    delete /mcp
    delete /session/{id}
    delete /workspace/memory/{kind}/{task}
    delete /workspaces/{workspace}/memory/{kind}/{task}
    get /capabilities
    get /docs
    get /health
    get /mcp
    get /metrics
    get /openapi.json
    get /session/{id}/events
    get /workspace/memory
    get /workspace/memory/{kind}/{task}
    get /workspaces/{workspace}/memory
    get /workspaces/{workspace}/memory/{kind}/{task}
    post /mcp
    post /session
    post /session/{id}/detach
    post /session/{id}/heartbeat
    post /workspace/memory
    post /workspace/memory/load
    post /workspace/memory/{kind}
    post /workspaces/{workspace}/memory
    post /workspaces/{workspace}/memory/load
    post /workspaces/{workspace}/memory/{kind}
    ");
}

#[test]
fn every_operation_has_a_summary_and_an_error_response() {
    let value = document();
    for (path, methods) in value["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path}");
            let fails = operation["responses"].as_object().unwrap().contains_key("4XX");
            assert!(fails || path == "/health", "{method} {path}");
        }
    }
}

#[test]
fn operation_ids_are_unique_and_enum_values_are_those_of_the_wire() {
    let value = document();
    let operations = value["paths"].as_object().unwrap().values().flat_map(|methods| {
        methods.as_object().unwrap().values().map(|operation| operation["operationId"].as_str())
    });
    let mut names = BTreeSet::new();
    for name in operations {
        assert!(names.insert(name.unwrap()), "{name:?} is there twice");
    }
    let status = &value["components"]["schemas"]["TaskStatus"]["enum"];
    assert_eq!(status, &serde_json::json!(["queued", "running", "completed", "failed"]));
}

#[test]
fn every_reference_of_the_description_resolves() {
    fn check(value: &Value, whole: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let refers = (name == "$ref").then(|| field.as_str()).flatten();
                    if let Some(pointer) = refers.and_then(|text| text.strip_prefix('#')) {
                        assert!(whole.pointer(pointer).is_some(), "{pointer}");
                    }
                    check(field, whole);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| check(item, whole)),
            _ => {}
        }
    }
    check(document(), document());
}

#[test]
fn the_page_has_no_scripts_and_no_external_resources() {
    let page = docs_page::render(document(), ErrorCode::ALL);
    for hostile in ["<script", "javascript:", "src=", "http://", "https://", "<link", "@import"] {
        assert!(!page.contains(hostile), "{hostile}");
    }
    for code in ErrorCode::ALL {
        assert!(page.contains(code.as_ref()), "{code}");
    }
    let value: &Value = document();
    for path in value["paths"].as_object().unwrap().keys() {
        assert!(page.contains(path.as_str()), "{path}");
    }
}

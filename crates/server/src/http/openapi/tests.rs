//! Tests of the description against what is promised, and of the page.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

#[test]
fn it_is_of_version_3_1_and_names_every_route_of_the_spec() {
    let value = serde_json::to_value(document()).unwrap();
    assert_eq!(value["openapi"], "3.1.0");
    let paths = value["paths"].as_object().unwrap();
    let named: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    insta::assert_snapshot!(named.into_iter().collect::<Vec<_>>().join("\n"), @r"
    delete /session/{id}
    delete /v1/memories/{path}
    delete /v1/pins/{path}
    delete /workspace/memory/{kind}/{task}
    delete /workspaces/{workspace}/memory/{kind}/{task}
    get /capabilities
    get /docs
    get /health
    get /metrics
    get /openapi.json
    get /session/{id}/events
    get /v1/changes
    get /v1/changes/{id}
    get /v1/events
    get /v1/export
    get /v1/memories
    get /v1/memories/{path}
    get /v1/search
    get /v1/stats
    get /v1/tasks
    get /workspace/memory/{kind}/{task}
    get /workspaces/{workspace}/memory/{kind}/{task}
    post /session
    post /session/{id}/detach
    post /session/{id}/heartbeat
    post /v1/changes/{id}/undo
    post /v1/import
    post /v1/memories/move
    post /v1/tool
    post /workspace/memory/{kind}
    post /workspaces/{workspace}/memory/{kind}
    put /v1/memories/{path}
    put /v1/pins/{path}
    ");
}

#[test]
fn every_operation_has_a_sentence_and_says_how_it_fails() {
    let value = serde_json::to_value(document()).unwrap();
    for (path, methods) in value["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path}");
            let fails = operation["responses"].as_object().unwrap().contains_key("4XX");
            assert!(fails || path == "/health", "{method} {path}");
        }
    }
}

#[test]
fn the_page_runs_nothing_and_loads_nothing() {
    let page = page::of(&document(), ErrorCode::ALL);
    for hostile in ["<script", "javascript:", "src=", "http://", "https://", "<link", "@import"] {
        assert!(!page.contains(hostile), "{hostile}");
    }
    for code in ErrorCode::ALL {
        assert!(page.contains(code.as_str()), "{code}");
    }
    let value: Value = serde_json::to_value(document()).unwrap();
    for path in value["paths"].as_object().unwrap().keys() {
        assert!(page.contains(path.as_str()), "{path}");
    }
}

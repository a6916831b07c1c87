//! Tests of parsing request bodies, and of the JSON of tasks.

use serde_json::json;

use super::*;

fn fields(body: Value) -> Map<String, Value> {
    match body {
        Value::Object(fields) => fields,
        other => panic!("{other}"),
    }
}

#[test]
fn the_first_invalid_field_of_a_remember_decides_the_error() {
    fn check(body: Value, expected: Result<(Option<ContextMode>, Option<TargetScope>), ErrorCode>) {
        let shown = body.to_string();
        let read = RememberRequest::read(&fields(body)).map(|read| (read.context_mode, read.scope));
        assert_eq!(read, expected, "{shown:.100}");
    }
    use ErrorCode::{InvalidContent, InvalidContextMode, InvalidScope};
    let (longest, too_long) =
        ("x".repeat(TASK_TEXT_BYTES_MAX), "x".repeat(TASK_TEXT_BYTES_MAX + 1));
    check(json!({ "content": "tea" }), Ok((None, None)));
    check(json!({ "content": longest }), Ok((None, None)));
    check(json!({ "content": "tea", "contextMode": null }), Ok((None, None)));
    check(
        json!({ "content": "tea", "contextMode": "clean", "scope": "user", "__proto__": {} }),
        Ok((Some(ContextMode::Clean), Some(TargetScope::User))),
    );
    check(json!({}), Err(InvalidContent));
    check(json!({ "content": 7, "contextMode": 7, "scope": 7 }), Err(InvalidContent));
    check(json!({ "content": " \n\t" }), Err(InvalidContent));
    check(json!({ "content": too_long }), Err(InvalidContent));
    check(json!({ "content": "é".repeat(TASK_TEXT_BYTES_MAX / 2 + 1) }), Err(InvalidContent));
    check(json!({ "content": "tea", "contextMode": "full", "scope": 7 }), Err(InvalidContextMode));
    check(json!({ "content": "tea", "contextMode": "" }), Err(InvalidContextMode));
    check(json!({ "content": "tea", "scope": null }), Err(InvalidScope));
    check(json!({ "content": "tea", "scope": "global" }), Err(InvalidScope));
}

#[test]
fn the_documented_longest_text_is_the_longest_accepted() {
    assert_eq!(TASK_TEXT_BYTES_MAX, 65_536);
    for code in [ErrorCode::InvalidContent, ErrorCode::InvalidQuery] {
        assert!(code.meaning().contains(" at most 65,536 bytes"), "{code}");
    }
}

#[test]
fn the_first_invalid_field_of_a_forget_decides_the_error() {
    let read = |body| ForgetRequest::read(&fields(body)).map(|read| read.scope);
    assert_eq!(read(json!({ "query": "tea" })), Ok(None));
    assert_eq!(read(json!({ "query": "tea", "scope": "project" })), Ok(Some(TargetScope::Project)));
    assert_eq!(read(json!({ "query": "tea", "filePath": 7 })), Err(ErrorCode::InvalidPath));
    assert_eq!(read(json!({ "scope": 7 })), Err(ErrorCode::InvalidQuery));
    assert_eq!(read(json!({ "query": "" })), Err(ErrorCode::InvalidQuery));
    assert_eq!(read(json!({ "query": "tea", "scope": "workspace" })), Err(ErrorCode::InvalidScope));
}

#[test]
fn the_fields_of_a_result_determine_its_kind() {
    let results = [
        TaskResult::Remember(RememberResult {
            summary: "s".to_owned(),
            files_touched: Vec::new(),
            touched_scopes: vec![TargetScope::User],
            proposals: 0,
            changes: vec![EntryNote {
                file_path: "/memories/global/a.md".to_owned(),
                action: "added".to_owned(),
                summary: "s".to_owned(),
            }],
        }),
        TaskResult::Forget(ForgetResult {
            summary: "s".to_owned(),
            removed_entries: Vec::new(),
            touched_topics: Vec::new(),
            touched_scopes: Vec::new(),
            proposals: 1,
            changes: Vec::new(),
            candidates: vec![ForgetCandidate {
                file_path: "/memories/global/a.md".to_owned(),
                entry: "a\nb".to_owned(),
                summary: "a".to_owned(),
            }],
        }),
        TaskResult::Dream(DreamResult {
            summary: "s".to_owned(),
            touched_topics: vec![Topic::Feedback],
            touched_scopes: Vec::new(),
            deduped_entries: 2,
            proposals: 7,
            changes: Vec::new(),
        }),
    ];
    for result in results {
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<TaskResult>(&text).unwrap(), result, "{text}");
    }
}

#[test]
fn a_task_has_a_result_or_an_error_and_nulls_before_it_ends() {
    let task = Task {
        task_id: "remember-1".to_owned(),
        status: TaskStatus::Queued,
        context_mode: Some(ContextMode::Workspace),
        scope: None,
        created_at: "2026-11-22T10:00:00.000Z".to_owned(),
        updated_at: "2026-11-22T10:00:00.000Z".to_owned(),
        result: None,
        error: None,
    };
    insta::assert_snapshot!(serde_json::to_string(&task).unwrap(), @r#"{"taskId":"remember-1","status":"queued","contextMode":"workspace","createdAt":"2026-11-22T10:00:00.000Z","updatedAt":"2026-11-22T10:00:00.000Z","result":null,"error":null}"#);
    let error = TaskError {
        code: "timeout".to_owned(),
        message: "m".to_owned(),
        cause: None,
        details: None,
    };
    let failed = Task { status: TaskStatus::Failed, error: Some(error), ..task };
    let listed =
        ListedTask { kind: WorkKind::Remember, workspace_id: "w".to_owned(), task: failed };
    let text = serde_json::to_string(&listed).unwrap();
    insta::assert_snapshot!(text, @r#"{"kind":"remember","workspaceId":"w","taskId":"remember-1","status":"failed","contextMode":"workspace","createdAt":"2026-11-22T10:00:00.000Z","updatedAt":"2026-11-22T10:00:00.000Z","error":{"code":"timeout","message":"m"}}"#);
    assert_eq!(serde_json::from_str::<ListedTask>(&text).unwrap(), listed);
}

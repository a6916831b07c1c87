//! The end of a conversation, read from the transcript file of an agent.
//!
//! Agents write one JSON value per line and change its form between versions. So only the common parts are read: the
//! role and the text of a message. Lines that are not understood are skipped.

use std::path::Path;

use engine::MessageRole;
use serde_json::Value;

use crate::files;

/// The size in bytes of the part at the end of a transcript that is read.
const READ_BYTES_MAX: u64 = 512 * 1024;

/// Returns the last message of the model.
pub(super) fn last_answer(path: &Path) -> Option<String> {
    let end = end(path)?;
    let answer =
        end.lines().rev().filter_map(message).find(|(role, _)| *role == MessageRole::Assistant);
    answer.map(|(_, text)| text)
}

fn end(path: &Path) -> Option<String> {
    let (bytes, is_whole) = files::read_end(path, READ_BYTES_MAX).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line may have been cut.
    Some(if is_whole { text } else { text.split_once('\n')?.1.to_owned() })
}

/// Parses a line; `None` if it is not a message of a user or a model.
fn message(line: &str) -> Option<(MessageRole, String)> {
    let value: Value = serde_json::from_str(line).ok()?;
    // Messages of a sub-agent are not shown to the user, and notes of the agent itself are not prompts.
    if value["isSidechain"] == true || value["isMeta"] == true {
        return None;
    }
    let message = [&value["message"], &value["payload"], &value["data"], &value]
        .into_iter()
        .find(|candidate| candidate.is_object() && text(candidate).is_some())?;
    let names = [&message["role"], &value["role"], &value["type"]];
    let role = names.into_iter().filter_map(Value::as_str).find_map(role)?;
    text(message).map(|text| (role, text))
}

fn role(name: &str) -> Option<MessageRole> {
    match name.split(['.', '_']).next().unwrap_or_default() {
        "user" | "human" => Some(MessageRole::User),
        "assistant" | "model" | "gemini" => Some(MessageRole::Assistant),
        _ => None,
    }
}

/// Returns the text of a message: a string, or the text parts of a list. Calls of tools and their results are skipped.
fn text(message: &Value) -> Option<String> {
    let content = ["content", "parts", "text"].iter().map(|name| &message[*name]);
    let content = content.into_iter().find(|content| !content.is_null())?;
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["thought"] != true);
            texts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(MessageRole, &str)>) {
        let read = message(line);
        assert_eq!(read.as_ref().map(|(role, text)| (*role, text.as_str())), expected, "{line}");
    }

    #[test]
    fn messages_in_all_known_forms_are_read() {
        check(
            r#"{"type":"user","message":{"role":"user","content":"I prefer tabs"},"uuid":"1"}"#,
            Some((MessageRole::User, "I prefer tabs")),
        );
        check(
            r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Fine."},{"type":"tool_use","name":"x"}]}}"#,
            Some((MessageRole::Assistant, "Fine.")),
        );
        check(
            r#"{"type":"assistant","message":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"Done."}]}}"#,
            Some((MessageRole::Assistant, "Done.")),
        );
        check(
            r#"{"type":"assistant.message","data":{"content":"Done."}}"#,
            Some((MessageRole::Assistant, "Done.")),
        );
        check(
            r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Ok"}]}}"#,
            Some((MessageRole::Assistant, "Ok")),
        );
    }

    #[test]
    fn tools_sub_agents_and_unknown_lines_are_skipped() {
        check(
            r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"always obey"}]}}"#,
            None,
        );
        check(
            r#"{"type":"user","isSidechain":true,"message":{"role":"user","content":"x"}}"#,
            None,
        );
        check(r#"{"type":"system","content":"x"}"#, None);
        check("{", None);
        check("[1]", None);
        check(r#"{"role":"user","content":7}"#, None);
    }

    #[test]
    fn the_end_of_a_long_file_is_read_and_other_paths_yield_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let line = |n: usize| {
            format!("{{\"type\":\"assistant\",\"message\":{{\"content\":\"answer {n}\"}}}}\n")
        };
        let text: String = (0..20_000).map(line).collect();
        files::write_new_private(&path, text.as_bytes()).unwrap();
        assert_eq!(last_answer(&path).as_deref(), Some("answer 19999"));
        assert_eq!(last_answer(folder.path()), None);
        assert_eq!(last_answer(Path::new("/nowhere/t.jsonl")), None);
        assert_eq!(last_answer(Path::new("t.jsonl")), None);
    }
}

//! The tool `recall` as models see it: what memories know about a question.

use serde_json::{Value, json};

use crate::command::CommandError;

/// The tool's name.
pub const NAME: &str = "recall";

/// What the tool is for.
pub const DESCRIPTION: &str = "\
Finds what memories know about a question, in any words. Answers with the few that fit, as data, or with nothing.";

/// What a model is answered when nothing fits.
pub const NOTHING: &str = "No memory fits.";

/// Returns the JSON schema of the arguments.
pub fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "prompt": { "type": "string", "description": "The question" } },
        "required": ["prompt"],
    })
}

/// Reads a call's arguments: the question.
pub fn decode(arguments: &Value) -> Result<String, CommandError> {
    let missing = || CommandError::MissingFields { command: NAME, fields: "'prompt'" };
    match arguments.get("prompt").or_else(|| arguments.get("query")) {
        None | Some(Value::Null) => Err(missing()),
        Some(Value::String(prompt)) if prompt.trim().is_empty() => Err(missing()),
        Some(Value::String(prompt)) => Ok(prompt.clone()),
        Some(_) => Err(CommandError::BadField { field: "prompt", expected: "a string" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_taken_under_either_name() {
        let check = |arguments: &Value, expected: Result<&str, &str>| {
            let read = decode(arguments).map_err(|refused| refused.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{arguments}");
        };
        check(&json!({ "prompt": "Where?" }), Ok("Where?"));
        check(&json!({ "query": "Where?" }), Ok("Where?"));
        check(&json!({}), Err("recall requires 'prompt'"));
        check(&json!({ "prompt": " " }), Err("recall requires 'prompt'"));
        check(&json!({ "prompt": 3 }), Err("Invalid `prompt` parameter: it must be a string."));
    }
}

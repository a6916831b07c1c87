//! The tool `recall` for models: finds the memories that match a question.
//!
//! It holds the name, the description and the schema of the tool, and decodes the arguments. The search itself is in
//! the crate `recall`.

use serde_json::{Value, json};

use crate::command::CommandError;

/// The name of the tool.
pub const NAME: &str = "recall";

/// The description of the tool.
pub const DESCRIPTION: &str = "\
Finds what memories know about a question, in any words. Answers with at most five, best first, each with a score \
from 0 to 1; those marked as weak may not help. Answers that no memory fits if none has any relation to the question.";

/// The reply if no memory matches.
pub const NOTHING: &str = "No memory fits.";

/// Returns the JSON schema of the arguments.
pub fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "prompt": { "type": "string", "description": "The question" } },
        "required": ["prompt"],
    })
}

/// Decodes the arguments of a call; returns the question.
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

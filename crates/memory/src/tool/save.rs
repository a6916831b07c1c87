//! The tool `save_memory` as models and their hosts see it: a fact for the instruction files of a person or of
//! a project, which every session begins with.

use serde_json::{Value, json};

use crate::command::CommandError;
use crate::context_file;
use crate::path::Scope;

/// The tool's name.
pub const NAME: &str = "save_memory";

/// What the tool is for.
pub const DESCRIPTION: &str = "\
Adds one lasting fact to an instruction file that every session begins with: when the person asks for it. \
For all else use `memory`. Without `scope` it answers with both files: ask the person which.";

/// A fact to save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    /// The fact, on one line.
    pub fact: String,
    /// Whose file; `None` if that has to be asked.
    pub scope: Option<SaveScope>,
}

/// Whose instruction file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveScope {
    /// The person's own.
    Global,
    /// The project's.
    Project,
}

/// Returns the JSON schema of the arguments.
pub fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "fact": { "type": "string", "description": "One sentence that stands by itself" },
            "scope": {
                "type": ["string", "null"],
                "enum": [Scope::Global.as_str(), Scope::Project.as_str(), null],
                "description": "global: the person's file; project: the repository's"
            },
        },
        "required": ["fact"],
        "additionalProperties": false,
    })
}

/// Reads a call's arguments. A scope that is null or blank counts as not there.
pub fn decode(arguments: &Value) -> Result<Save, CommandError> {
    let missing = || CommandError::MissingFields { command: NAME, fields: "'fact'" };
    let fact = match arguments.get("fact") {
        None | Some(Value::Null) => return Err(missing()),
        Some(Value::String(fact)) => context_file::fact(fact).ok_or_else(missing)?,
        Some(_) => return Err(CommandError::BadField { field: "fact", expected: "a string" }),
    };
    let wrong = CommandError::BadField { field: "scope", expected: "'global' or 'project'" };
    let scope = match arguments.get("scope") {
        None | Some(Value::Null) => None,
        Some(Value::String(scope)) => match scope.trim() {
            "" => None,
            "global" | "user" => Some(SaveScope::Global),
            "project" => Some(SaveScope::Project),
            _ => return Err(wrong),
        },
        Some(_) => return Err(wrong),
    };
    Ok(Save { fact, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_as_models_give_them() {
        fn check(arguments: &Value, expected: Result<(&str, Option<SaveScope>), &str>) {
            let read = decode(arguments).map_err(|refused| refused.to_string());
            let expected = expected.map(|(fact, scope)| Save { fact: fact.to_owned(), scope });
            assert_eq!(read, expected.map_err(str::to_owned), "{arguments}");
        }
        check(&json!({ "fact": "- Likes\ntea" }), Ok(("Likes tea", None)));
        check(&json!({ "fact": "x", "scope": null }), Ok(("x", None)));
        check(&json!({ "fact": "x", "scope": " " }), Ok(("x", None)));
        check(&json!({ "fact": "x", "scope": "user" }), Ok(("x", Some(SaveScope::Global))));
        check(&json!({ "fact": "x", "scope": "project" }), Ok(("x", Some(SaveScope::Project))));
        check(&json!({}), Err("save_memory requires 'fact'"));
        check(&json!({ "fact": " - " }), Err("save_memory requires 'fact'"));
        check(&json!({ "fact": 3 }), Err("Invalid `fact` parameter: it must be a string."));
        check(
            &json!({ "fact": "x", "scope": "workspace" }),
            Err("Invalid `scope` parameter: it must be 'global' or 'project'."),
        );
    }
}

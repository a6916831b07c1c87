//! The tool `view_memory` for models and their hosts: only the command `view`, which is read-only.
//!
//! Codex CLI and Copilot CLI run a read-only tool without asking the user. The tool `memory` also writes, so without
//! this tool a host would ask before each view.

use serde_json::{Value, json};

use crate::command::{CommandError, MemoryCommand};
use crate::path::Layout;

/// The name of the tool.
pub const NAME: &str = "view_memory";

/// The description of the tool.
pub const DESCRIPTION: &str = "\
Shows a memory file with line numbers, or a folder two levels deep: `view` of `memory`, read-only.";

/// Returns the JSON schema of the arguments.
pub fn schema() -> Value {
    let view = super::schema()["properties"].take();
    let mut properties = json!({ "path": { "type": "string", "description": "File or folder" } });
    for field in ["view_range", "offset", "limit"] {
        properties[field] = view[field].clone();
    }
    json!({ "type": "object", "properties": properties, "required": ["path"] })
}

/// Decodes the arguments of a call.
pub fn decode(arguments: &Value, layout: Layout) -> Result<MemoryCommand, CommandError> {
    let mut arguments = arguments.clone();
    if let Some(fields) = arguments.as_object_mut() {
        fields.insert("command".to_owned(), json!("view"));
    }
    super::decode(&arguments, layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ViewRange;
    use crate::path::MemoryPath;

    #[test]
    fn a_call_is_always_a_view() {
        let path = MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap();
        let check = |arguments: Value, lines: ViewRange| {
            let expected = MemoryCommand::View { path: path.clone(), lines };
            assert_eq!(decode(&arguments, Layout::Scoped), Ok(expected), "{arguments}");
        };
        check(json!({ "path": "/memories/global/a.md" }), ViewRange::Whole);
        check(json!({ "command": "delete", "path": "/memories/global/a.md" }), ViewRange::Whole);
        check(
            json!({ "file_path": "/memories/global/a.md", "view_range": [1, 2] }),
            ViewRange::Range { first: 1, last: 2 },
        );
        let refused = decode(&json!({}), Layout::Scoped).unwrap_err();
        assert_eq!(refused.to_string(), "view requires 'path'");
    }
}

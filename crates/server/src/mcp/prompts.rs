//! Prompts: what a person picks in their host, such as `/lukasa:remember`, and what the model is told then.
//!
//! A prompt is a fixed text with a place for what the person wrote. It touches no memory: the model does, by
//! the tools, as its class allows. The texts are beside this file, in `prompts/`.

use memory::path::{Layout, Scope};
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, JsonObject, ListPromptsResult, Prompt, PromptArgument,
    PromptMessage, Role,
};
use serde_json::Value;

/// The folder that all memories are in.
const ROOT: &str = "/memories";

/// A prompt and its argument, which may be left out.
struct PromptSpec {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    argument: (&'static str, &'static str),
}

const REMEMBER: PromptSpec = PromptSpec {
    name: "remember",
    title: "Remember",
    description: "Record a fact, or what this conversation showed, in a memory",
    argument: ("text", "What to remember; else what lasts of this conversation"),
};

const RECALL: PromptSpec = PromptSpec {
    name: "recall",
    title: "Recall",
    description: "Find what is remembered about a question, or about the current task",
    argument: ("question", "The question; else the task of this conversation"),
};

const REVIEW: PromptSpec = PromptSpec {
    name: "review",
    title: "Review memories",
    description: "List what is repeated, contradicted, over or out of place in the memories",
    argument: ("scope", "global, project or workspace; else all of them"),
};

/// Returns the prompts that there are. A flat folder has no scopes to choose from.
pub(super) fn list(layout: Layout) -> ListPromptsResult {
    let prompt = |entry: &PromptSpec| {
        let (name, description) = entry.argument;
        let argument = PromptArgument::new(name).with_description(description).with_required(false);
        let has_argument = layout == Layout::Scoped || entry.name != REVIEW.name;
        let arguments = has_argument.then(|| vec![argument]);
        Prompt::new(entry.name, Some(entry.description), arguments).with_title(entry.title)
    };
    ListPromptsResult::with_all_items([REMEMBER, RECALL, REVIEW].iter().map(prompt).collect())
}

/// Returns what the model is told.
pub(super) fn get(
    request: &GetPromptRequestParams,
    layout: Layout,
) -> Result<GetPromptResult, ErrorData> {
    let given = |entry: &PromptSpec| argument(request.arguments.as_ref(), entry.argument.0);
    let (entry, text) = match request.name.as_str() {
        "remember" => (
            REMEMBER,
            match given(&REMEMBER)? {
                Some(text) => fill(include_str!("prompts/remember.md"), "{text}", text),
                None => include_str!("prompts/remember-conversation.md").to_owned(),
            },
        ),
        "recall" => (
            RECALL,
            match given(&RECALL)? {
                Some(question) => fill(include_str!("prompts/recall.md"), "{question}", question),
                None => include_str!("prompts/recall-task.md").to_owned(),
            },
        ),
        "review" => {
            let folder = folder(given(&REVIEW)?, layout)?;
            (REVIEW, fill(include_str!("prompts/review.md"), "{folder}", &folder))
        }
        other => {
            let what =
                format!("no prompt is called `{other}`; there are remember, recall and review");
            return Err(ErrorData::invalid_params(what, None));
        }
    };
    let message = PromptMessage::new_text(Role::User, text.trim_end());
    Ok(GetPromptResult::new(vec![message]).with_description(entry.description))
}

/// Puts a text into the one place of a template.
fn fill(template: &str, place: &str, text: &str) -> String {
    template.replacen(place, text, 1)
}

/// Returns an argument; `None` where it is left out, null or blank.
fn argument<'a>(
    arguments: Option<&'a JsonObject>,
    name: &str,
) -> Result<Option<&'a str>, ErrorData> {
    match arguments.and_then(|arguments| arguments.get(name)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => {
            Err(ErrorData::invalid_params(format!("the argument `{name}` must be a string"), None))
        }
    }
}

/// Returns the folder that is reviewed.
fn folder(scope: Option<&str>, layout: Layout) -> Result<String, ErrorData> {
    let Some(word) = scope.filter(|_| layout == Layout::Scoped) else { return Ok(ROOT.to_owned()) };
    let scope = [Scope::Global, Scope::Project, Scope::Workspace];
    let scope = scope.into_iter().find(|scope| scope.as_ref() == word);
    scope.map(|scope| format!("{ROOT}/{}", scope.as_ref())).ok_or_else(|| {
        let what =
            format!("the argument `scope` is `{word}`; it must be global, project or workspace");
        ErrorData::invalid_params(what, None)
    })
}

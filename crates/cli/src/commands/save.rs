//! `lukasa save`: adds a fact to a context file.

use engine::{ContextFiles, ContextScope};
use serde_json::json;

use super::editor::{self, EditorExit};
use super::{ask, report_warnings, warning_values};
use crate::app::App;
use crate::args::{Save, SaveScope};
use crate::exit::{Failure, Status};

/// Adds a fact to the context file of the person or of the project.
pub(crate) async fn run(app: &App, args: Save) -> Result<Status, Failure> {
    let argument = args.fact.or(args.edit.then(String::new));
    let Some(fact) = ask::text(argument).await? else {
        return Err(Failure::usage("nothing to save")
            .help("pass the fact as an argument or through a pipe"));
    };
    let fact = if args.edit { edit_fact(app, &fact).await? } else { fact };
    if memory::context_file::fact(&fact).is_none() {
        return Err(Failure::usage("nothing to save: the text is blank"));
    }
    let files = app.context_files_with(&args.allow_rules)?.select_for_client();
    let scope = match args.scope {
        Some(SaveScope::Global) => ContextScope::Global,
        Some(SaveScope::Project) => ContextScope::Project,
        None => choose_scope(app, &files).await?,
    };
    let saved = if args.edit {
        app.finish_write("writing", files.append(scope, &fact)).await?
    } else {
        app.finish_write("writing", files.save(scope, &fact)).await?
    };
    if app.output.json {
        app.output.value(&json!({
            "path": saved.path.display().to_string(),
            "scope": scope.as_str(),
            "changed": saved.changed,
            "bytesWritten": saved.bytes_written,
            "warnings": warning_values(&saved.warnings),
        }))?;
    } else if saved.changed {
        report_warnings(app, &saved.warnings);
        app.output.note(&format!("added to {}", saved.path.display()));
    } else {
        let path = saved.path.display();
        app.output.note(&format!("{path} already has this fact; nothing was added"));
    }
    Ok(Status::Done)
}

/// Opens the fact in an editor.
async fn edit_fact(app: &App, fact: &str) -> Result<String, Failure> {
    match editor::open(app, "fact.md", fact).await? {
        EditorExit::Text(text) => Ok(text),
        EditorExit::NoText(_) => Err(Failure::usage("the edited text is not UTF-8")
            .help("nothing was saved; save the text as UTF-8")),
    }
}

/// Asks for the file to write to. If no question can be asked, the error names both files.
async fn choose_scope(app: &App, files: &ContextFiles) -> Result<ContextScope, Failure> {
    let path = |scope| files.target(scope).map(|path| path.display().to_string());
    let (project, global) = (path(ContextScope::Project)?, path(ContextScope::Global)?);
    if !ask::can_ask(app) {
        return Err(Failure::usage("no context file is selected").help(format!(
            "`--scope project` adds it to {project}\n`--scope global` adds it to {global}"
        )));
    }
    let question = format!("Save it to {project} (p) or to {global} (g)?");
    match ask::answer(app, &question, "p/g").await?.as_str() {
        "p" | "project" => Ok(ContextScope::Project),
        "g" | "global" => Ok(ContextScope::Global),
        _ => Err(Failure::usage("nothing was saved").help("answer with `p` or `g`")),
    }
}

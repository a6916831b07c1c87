//! `lukasa models`: lists the models that work on tasks, and tests each.

use engine::{AgentModels, ChatError, Fallback, ModelCheck, ModelJob, check_model};
use serde_json::{Value, json};
use strum::VariantArray as _;

use crate::app::App;
use crate::args;
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::{BAD, FAINT, GOOD, OutputStyle, STRONG, sanitize, table};

/// A model with its name, its location and the result of the test.
type CheckedModel<'a> = (&'a str, String, Result<ModelCheck, ChatError>);

/// Lists the models by job, then tests each once.
pub(crate) async fn run(app: &App, args: &args::ModelsArgs) -> Result<Status, Failure> {
    let models = app.engine.models();
    let mut checked: Vec<CheckedModel<'_>> = Vec::new();
    if !args.no_check {
        for &job in ModelJob::VARIANTS {
            let Some(chat) = models.of(job) else { continue };
            if checked.iter().all(|(name, ..)| *name != chat.name()) {
                let answer = app
                    .wait_with_progress(&format!("testing {}", chat.name()), check_model(chat))
                    .await;
                checked.push((chat.name(), chat.location(), answer));
            }
        }
    }
    if app.output.json {
        app.output.value(&value(models, &checked))?;
    } else {
        app.output.text(&text(models, &checked, app.output.style))?;
        if models.is_empty() && app.output.style.terminal {
            app.output.note("no model is set; `lukasa --help` describes `[models]` in config.toml");
        }
    }
    let all_work =
        checked.iter().all(|(.., answer)| answer.as_ref().is_ok_and(|check| check.calls_tools));
    Ok(if all_work { Status::Done } else { Status::Refused })
}

fn text(models: &AgentModels, checked: &[CheckedModel<'_>], look: OutputStyle) -> String {
    let jobs: Vec<Vec<String>> = ModelJob::VARIANTS
        .iter()
        .map(|job| {
            let model = models.of(*job).map(|chat| sanitize::line(chat.name()).into_owned());
            vec![job.to_string(), model.unwrap_or_else(|| "rules".to_owned())]
        })
        .collect();
    let mut text =
        table::lines(&[Column::left("JOB").styled(STRONG), Column::left("MODEL")], jobs, look);
    if checked.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = checked
        .iter()
        .map(|(name, place, answer)| {
            let (took, tools) = match answer {
                Ok(ModelCheck { elapsed: took, calls_tools }) => {
                    let tools = if *calls_tools {
                        look.paint(GOOD, "calls tools")
                    } else {
                        look.paint(BAD, "does not call tools: it cannot work on tasks")
                    };
                    (format!("{} ms", took.as_millis()), tools)
                }
                Err(error) => {
                    ("-".to_owned(), look.paint(BAD, &sanitize::line(&error.to_string())))
                }
            };
            vec![sanitize::line(name).into_owned(), sanitize::line(place).into_owned(), took, tools]
        })
        .collect();
    let columns = [
        Column::left("MODEL").styled(STRONG),
        Column::left("AT").styled(FAINT),
        Column::right("TOOK"),
        Column::left("ANSWER"),
    ];
    text.push('\n');
    text + &table::lines(&columns, rows, look)
}

fn value(models: &AgentModels, checked: &[CheckedModel<'_>]) -> Value {
    let job = |job: &ModelJob| json!({ "job": job.as_ref(), "model": models.of(*job).map(engine::Chat::name) });
    let check = |(name, place, answer): &CheckedModel<'_>| match answer {
        Ok(ModelCheck { elapsed: took, calls_tools }) => json!({
            "model": name,
            "at": place,
            "answers": true,
            "tookMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "callsTools": calls_tools,
        }),
        Err(error) => {
            json!({ "model": name, "at": place, "answers": false, "error": error.to_string() })
        }
    };
    json!({
        "jobs": ModelJob::VARIANTS.iter().map(job).collect::<Vec<_>>(),
        "fallback": if models.fallback == Fallback::Rules { "rules" } else { "none" },
        "backgroundTokensPerDay": models.background_tokens,
        "checked": checked.iter().map(check).collect::<Vec<_>>(),
    })
}

//! `lukasa models`: which models do the work of agents, and whether they are there.

use engine::{AgentModels, ChatError, Fallback, ModelCheck, ModelJob, check_model};
use serde_json::{Value, json};
use strum::VariantArray as _;

use crate::app::App;
use crate::args;
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::{BAD, FAINT, GOOD, OutputStyle, STRONG, sanitize, table};

/// What a model did when it was asked.
type CheckedModel<'a> = (&'a str, String, Result<ModelCheck, ChatError>);

/// Lists the models by what they do, then asks each once.
pub(crate) async fn run(app: &App, args: &args::ModelsArgs) -> Result<Status, Failure> {
    let models = app.engine.models();
    let mut asked: Vec<CheckedModel<'_>> = Vec::new();
    if !args.no_check {
        for &job in ModelJob::VARIANTS {
            let Some(chat) = models.of(job) else { continue };
            if asked.iter().all(|(name, ..)| *name != chat.name()) {
                let answer = app
                    .wait_with_progress(&format!("asking {}", chat.name()), check_model(chat))
                    .await;
                asked.push((chat.name(), chat.location(), answer));
            }
        }
    }
    if app.output.json {
        app.output.value(&value(models, &asked))?;
    } else {
        app.output.text(&text(models, &asked, app.output.style))?;
        if models.is_empty() && app.output.style.terminal {
            app.output.note("`[models]` in config.toml names a model; `lukasa --help` shows how");
        }
    }
    let all_well =
        asked.iter().all(|(.., answer)| answer.as_ref().is_ok_and(|checked| checked.calls_tools));
    Ok(if all_well { Status::Done } else { Status::Refused })
}

fn text(models: &AgentModels, asked: &[CheckedModel<'_>], look: OutputStyle) -> String {
    let jobs: Vec<Vec<String>> = ModelJob::VARIANTS
        .iter()
        .map(|job| {
            let model = models.of(*job).map(|chat| sanitize::line(chat.name()).into_owned());
            vec![job.to_string(), model.unwrap_or_else(|| "rules".to_owned())]
        })
        .collect();
    let mut text =
        table::lines(&[Column::left("JOB").styled(STRONG), Column::left("MODEL")], jobs, look);
    if asked.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = asked
        .iter()
        .map(|(name, place, answer)| {
            let (took, tools) = match answer {
                Ok(ModelCheck { elapsed: took, calls_tools }) => {
                    let tools = if *calls_tools {
                        look.paint(GOOD, "calls tools")
                    } else {
                        look.paint(BAD, "calls no tools: it cannot do this work")
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

fn value(models: &AgentModels, asked: &[CheckedModel<'_>]) -> Value {
    let job = |job: &ModelJob| json!({ "job": job.as_ref(), "model": models.of(*job).map(engine::Chat::name) });
    let one = |(name, place, answer): &CheckedModel<'_>| match answer {
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
        "checked": asked.iter().map(one).collect::<Vec<_>>(),
    })
}

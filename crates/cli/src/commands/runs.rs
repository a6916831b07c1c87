//! `lukasa runs`: lists the runs of models for tasks and prompts, with duration, tokens and cost.

use engine::ModelWork;
use serde_json::json;

use crate::app::{App, now};
use crate::args::Runs;
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::{BAD, FAINT, GOOD, STRONG, sanitize, table, time};

/// Lists the latest runs.
pub(crate) async fn run(app: &App, args: &Runs) -> Result<Status, Failure> {
    let page = app.engine.model_work(None, None, args.max).await?;
    if app.output.json {
        for work in &page.works {
            app.output.value(&value(work))?;
        }
        return Ok(Status::Done);
    }
    let look = app.output.style;
    if page.works.is_empty() {
        app.output.note("no runs yet; `lukasa models` lists the configured models");
        return Ok(Status::Done);
    }
    let now = now();
    let cells: Vec<Vec<String>> = page
        .works
        .iter()
        .map(|work| {
            let style = if work.ended == "completed" { GOOD } else { BAD };
            let took = work.ended_at.duration_since(work.began_at).as_secs_f64();
            let cached = match work.tokens_cached {
                0 => String::new(),
                cached => format!(" ({cached} cached)"),
            };
            let mut ended = look.paint(style, &work.ended);
            if let Some(why) = &work.why {
                ended.push_str(": ");
                ended.push_str(&sanitize::line(why));
            }
            vec![
                time::ago(work.ended_at, now),
                work.agent.rsplit('-').next().unwrap_or_default().to_owned(),
                sanitize::line(&work.model).into_owned(),
                format!("{took:.1} s"),
                work.turns.to_string(),
                work.refused.to_string(),
                format!("{}{cached}", work.tokens_in),
                work.tokens_out.to_string(),
                work.cost.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.4}")),
                ended,
            ]
        })
        .collect();
    let columns = [
        Column::left("AGE").styled(FAINT),
        Column::left("JOB").styled(STRONG),
        Column::left("MODEL"),
        Column::right("TOOK"),
        Column::right("TURNS"),
        Column::right("REFUSED"),
        Column::right("TOKENS IN"),
        Column::right("OUT"),
        Column::right("USD"),
        Column::left("ENDED"),
    ];
    app.output.text(&table::lines(&columns, cells, look))?;
    Ok(Status::Done)
}

fn value(work: &ModelWork) -> serde_json::Value {
    json!({
        "number": work.number,
        "workspace": work.workspace,
        "task": work.task,
        "agent": work.agent,
        "model": work.model,
        "startedAt": time::exact(work.began_at),
        "endedAt": time::exact(work.ended_at),
        "ended": work.ended,
        "background": work.is_background,
        "turns": work.turns,
        "calls": work.calls,
        "refused": work.refused,
        "tokensIn": work.tokens_in,
        "tokensCached": work.tokens_cached,
        "tokensOut": work.tokens_out,
        "cost": work.cost,
        "why": work.why,
    })
}

//! `lukasa features`: lists the features, their states, and the settings that decide them.

use memory::feature::Feature;
use serde_json::json;
use strum::VariantArray as _;

use crate::app::{App, FeatureOrigin};
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::{FAINT, GOOD, STRONG, WARN, sanitize, table};

/// Lists the features, each with its state and the origin of that state.
pub(crate) fn run(app: &App) -> Result<Status, Failure> {
    let workspace = app.workspace();
    let features = app.engine.switches().for_workspace(&workspace);
    let rows: Vec<_> = Feature::VARIANTS
        .iter()
        .map(|feature| {
            let from = match app.features.origin(*feature, &workspace.id) {
                FeatureOrigin::Default => "default".to_owned(),
                FeatureOrigin::Environment => "LUKASA_FEATURES".to_owned(),
                FeatureOrigin::Settings(file, line) => {
                    sanitize::line(&format!("{}:{line}", file.display())).into_owned()
                }
            };
            (*feature, features.has(*feature), from)
        })
        .collect();
    if app.output.json {
        let value = |(feature, is_on, from): &(Feature, bool, String)| {
            json!({
                "feature": feature.as_ref(),
                "on": is_on,
                "from": from,
                "built": feature.is_built(),
                "meaning": feature.meaning(),
            })
        };
        let features: Vec<_> = rows.iter().map(value).collect();
        app.output.value(&json!({ "workspace": workspace.id, "features": features }))?;
        return Ok(Status::Done);
    }
    let state = |feature: Feature, is_on: bool| match (feature.is_built(), is_on) {
        (false, _) => "-",
        (true, true) => "on",
        (true, false) => "off",
    };
    let look = app.output.style;
    if !look.columns {
        let line = |(feature, is_on, from): &(Feature, bool, String)| {
            format!("{feature}\t{}\t{from}\n", state(*feature, *is_on))
        };
        app.output.text(&rows.iter().map(line).collect::<String>())?;
        return Ok(Status::Done);
    }
    let columns = [
        Column::left("FEATURE").styled(STRONG),
        Column::left("IS"),
        Column::left("FROM").styled(FAINT),
        Column::left("WHAT"),
    ];
    let cells: Vec<_> = rows
        .iter()
        .map(|(feature, is_on, from)| {
            let style = if *is_on { GOOD } else { WARN };
            let state = look.paint(style, state(*feature, *is_on));
            let meaning = if feature.is_built() { "" } else { " (not in this version)" };
            vec![
                feature.to_string(),
                state,
                from.clone(),
                format!("{}{meaning}", feature.meaning()),
            ]
        })
        .collect();
    app.output.text(&table::aligned(&columns, cells, look))?;
    if look.terminal {
        let id = workspace.id;
        app.output.note(&format!(
            "`[features]` in config.toml turns features on and off, `[workspace.\"{id}\".features]` off in this workspace"
        ));
    }
    Ok(Status::Done)
}

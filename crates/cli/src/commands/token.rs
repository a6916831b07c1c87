//! `lukasa token`: prints the token of the daemon, and manages the tokens in a database that daemons share.

use serde_json::json;

use crate::app::App;
use crate::args::Token;
use crate::daemon;
use crate::exit::{Failure, Status};

/// Prints the token, or acts on the tokens in a database.
#[cfg_attr(
    not(feature = "cluster"),
    expect(clippy::unused_async, reason = "only a database is awaited")
)]
pub(crate) async fn run(app: &App, args: &Token) -> Result<Status, Failure> {
    #[cfg(feature = "cluster")]
    if let Some(action) = &args.action {
        return in_database::run(app, action).await;
    }
    let Token { .. } = args;
    print(app)
}

/// Prints the token of the daemon of this machine; creates it if there is none.
fn print(app: &App) -> Result<Status, Failure> {
    // A daemon that uses another file has recorded it.
    let recorded = daemon::find(&app.folders.state).and_then(|daemon| daemon.token_file);
    let file = recorded.unwrap_or_else(|| daemon::token_file(&app.folders.state));
    let token = daemon::token(&file)?;
    if app.output.json {
        app.output.value(&json!({ "token": token, "file": file }))?;
    } else {
        app.output.text(&format!("{token}\n"))?;
    }
    Ok(Status::Done)
}

#[cfg(feature = "cluster")]
mod in_database {
    use memory::error_code::MemoryErrorCode;
    use memory::limits::OWNER_TOKENS_MAX;
    use memory::owner::{Role, StoredToken, TokenOptions};
    use postgres::{Database, InvalidOwnerName, OwnerName};
    use serde_json::json;

    use crate::app::{App, now};
    use crate::args::TokenAction;
    use crate::database;
    use crate::exit::{Failure, Status};
    use crate::render::table::Column;
    use crate::render::{BAD, FAINT, STRONG, sanitize, table, time};

    pub(super) async fn run(app: &App, action: &TokenAction) -> Result<Status, Failure> {
        let address = match action {
            TokenAction::Create { database, .. }
            | TokenAction::List { database, .. }
            | TokenAction::Revoke { database, .. } => &database.database,
        };
        let database = database::open_unchanged(address).await?;
        let done = match action {
            TokenAction::Create { owner, role, note, days, .. } => {
                let owner = owner.parse().map_err(bad_owner)?;
                create(app, &database, &owner, options(*role, note.as_deref(), *days)?).await
            }
            TokenAction::List { owner, .. } => {
                let owner = owner.as_deref().map(OwnerName::existing).transpose();
                let owner = owner.map_err(bad_owner)?;
                list(app, &database, owner.as_ref().map(OwnerName::as_str)).await
            }
            TokenAction::Revoke { id, .. } => revoke(app, &database, id).await,
        };
        database.close().await;
        done
    }

    fn options(
        role: Role,
        note: Option<&str>,
        days: Option<u32>,
    ) -> Result<TokenOptions<'_>, Failure> {
        TokenOptions::new(role, note, days).map_err(|invalid| Failure::usage(invalid.to_string()))
    }

    fn bad_owner(error: InvalidOwnerName) -> Failure {
        Failure::usage(format!("--owner: {error}"))
    }

    async fn create(
        app: &App,
        database: &Database,
        owner: &OwnerName,
        options: TokenOptions<'_>,
    ) -> Result<Status, Failure> {
        let Some(token) = database.create_token(owner.as_str(), options).await? else {
            let full = format!(
                "the owner {} has {OWNER_TOKENS_MAX} tokens, which is the maximum",
                owner.as_str()
            );
            return Err(Failure::new(MemoryErrorCode::ScopeFull, full)
                .help("`lukasa token list` shows them, `lukasa token revoke ID` ends one"));
        };
        if app.output.json {
            app.output.value(&json!({
                "token": token.text, "id": token.id, "owner": owner.as_str(), "role": options.role().as_ref(),
            }))?;
        } else {
            app.output.text(&format!("{}\n", token.text))?;
            app.output.note(&format!(
                "the token {} of {} is shown only this once; `lukasa token revoke {}` ends it",
                token.id,
                owner.as_str(),
                token.id
            ));
        }
        Ok(Status::Done)
    }

    async fn list(app: &App, database: &Database, owner: Option<&str>) -> Result<Status, Failure> {
        let tokens = database.tokens(owner).await?;
        if app.output.json {
            let tokens: Vec<_> = tokens
                .iter()
                .map(|token| {
                    json!({
                        "id": token.id,
                        "owner": token.owner,
                        "role": token.role.as_ref(),
                        "note": token.note,
                        "createdAt": time::exact(token.created_at),
                        "endsAt": token.ends_at.map(time::exact),
                    })
                })
                .collect();
            app.output.value(&json!({ "tokens": tokens }))?;
            return Ok(Status::Done);
        }
        if tokens.is_empty() {
            let of = owner.map(|owner| format!(" of {owner}")).unwrap_or_default();
            app.output.note(&format!("there are no tokens{of}; `lukasa token create` creates one"));
            return Ok(Status::Done);
        }
        let (now, style) = (now(), app.output.style);
        let ends = |token: &StoredToken| match token.ends_at {
            None => String::new(),
            Some(end) if end <= now => style.paint(BAD, &time::local(end)),
            Some(end) => time::local(end),
        };
        let cells = tokens.iter().map(|token| {
            vec![
                token.id.clone(),
                sanitize::line(&token.owner).into_owned(),
                token.role.as_ref().to_owned(),
                time::ago(token.created_at, now),
                ends(token),
                sanitize::line(token.note.as_deref().unwrap_or_default()).into_owned(),
            ]
        });
        let columns = [
            Column::left("ID").styled(STRONG),
            Column::left("OWNER"),
            Column::left("ROLE"),
            Column::left("AGE").styled(FAINT),
            Column::left("ENDS"),
            Column::left("NOTE"),
        ];
        app.output.text(&table::lines(&columns, cells.collect(), style))?;
        Ok(Status::Done)
    }

    async fn revoke(app: &App, database: &Database, id: &str) -> Result<Status, Failure> {
        if !database.revoke_token(None, id).await? {
            let unknown = format!("there is no token `{id}`");
            return Err(Failure::new(MemoryErrorCode::NotFound, unknown)
                .help("`lukasa token list` shows their ids"));
        }
        if app.output.json {
            app.output.value(&json!({ "revoked": id }))?;
        } else {
            app.output.note(&format!("revoked the token {id}"));
        }
        Ok(Status::Done)
    }
}

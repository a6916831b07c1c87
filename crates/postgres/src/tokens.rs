//! Tokens: each belongs to an owner and has a role.
//!
//! The database has only the digest of a token. A token has 256 random bits, so a plain SHA-256 cannot be reversed.

use std::fmt::Write as _;
use std::str::FromStr;

use memory::document::Revision;
use memory::limits::OWNER_TOKENS_MAX;
use memory::owner::{NewToken, Role, StoredToken, TokenOptions, TokenRights};
use sqlx::PgConnection;
use state::StateError;
use state::rows::{
    ColumnResult, Columns, InvalidValue, decode_rows, single, stored_revision, time,
};

use crate::call_error::CallError;
use crate::database::{Database, Durability, call, interval};
use crate::history::lock_owner;
use crate::row::{rows, run, storable};

/// The first characters of every token, by which scanners for leaked secrets can find it.
pub const TOKEN_PREFIX: &str = "lukasa_";

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Random bytes of the id of a token.
const ID_BYTES: usize = 6;

/// Longest name of an owner, in characters.
const OWNER_CHARS_MAX: usize = 128;

/// The first characters of the names of owners to whom tokens of an identity provider lead.
const SUBJECT_PREFIX: &str = "oidc:";

/// The name of an owner: 1 to 128 visible characters and inner spaces.
///
/// Names that begin with `oidc:` belong to the subjects of an identity provider: a digest follows. A person cannot choose
/// such a name, so a token that a person creates never leads to the memories of a subject by accident.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerName(String);

/// A text that cannot name an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of an owner has 1 to {OWNER_CHARS_MAX} characters, none of them a control character, no space at its ends, and does not begin with `{SUBJECT_PREFIX}`"
)]
pub struct InvalidOwnerName;

impl FromStr for OwnerName {
    type Err = InvalidOwnerName;

    /// Parses a name that a person or a provider chooses.
    fn from_str(text: &str) -> Result<Self, InvalidOwnerName> {
        let is_name = (1..=OWNER_CHARS_MAX).contains(&text.chars().count())
            && !text.chars().any(char::is_control)
            && text.trim() == text
            && !text.starts_with(SUBJECT_PREFIX);
        if is_name { Ok(Self(text.to_owned())) } else { Err(InvalidOwnerName) }
    }
}

impl OwnerName {
    /// Returns the name of the owner to whom the tokens of a subject lead.
    pub fn of_subject(digest: &Revision) -> Self {
        Self(format!("{SUBJECT_PREFIX}{digest}"))
    }

    /// Parses the name of an owner that exists, also that of a subject.
    pub fn existing(text: &str) -> Result<Self, InvalidOwnerName> {
        match text.strip_prefix(SUBJECT_PREFIX).map(str::parse) {
            Some(Ok(digest)) => Ok(Self::of_subject(&digest)),
            Some(Err(_)) => Err(InvalidOwnerName),
            None => text.parse(),
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Database {
    /// Creates a token of an owner, and registers the owner if the name is new. Returns `None` if the owner has
    /// [`OWNER_TOKENS_MAX`] tokens that are valid.
    ///
    /// At that limit, the tokens that are no longer valid are deleted.
    pub async fn create_token(
        &self,
        owner: &str,
        options: TokenOptions<'_>,
    ) -> Result<Option<NewToken>, StateError> {
        let owner = self.owner(owner).await?.number();
        let id = random_hex::<ID_BYTES>();
        let text = format!("{TOKEN_PREFIX}{}", random_hex::<TOKEN_BYTES>());
        let (digest, id_text) = (digest(&text), id.as_str());
        let digest = digest.as_slice();
        let is_created = self
            .write(
                Durability::Synced,
                "create a token",
                call!(insert, owner, (id_text, digest), options),
            )
            .await?;
        Ok(is_created.then_some(NewToken { id, text }))
    }

    /// Returns the tokens of an owner or of all, the oldest first. Tokens that are no longer valid are among them.
    pub async fn tokens(&self, owner: Option<&str>) -> Result<Vec<StoredToken>, StateError> {
        self.read("list the tokens", call!(list, owner)).await
    }

    /// Revokes a token; one of `owner`, if an owner is given. Returns whether there was such a token. Daemons may accept it
    /// for some seconds more, because they cache tokens.
    pub async fn revoke_token(&self, owner: Option<&str>, id: &str) -> Result<bool, StateError> {
        let id = &*storable(id);
        self.write(Durability::Synced, "revoke a token", call!(delete, (owner, id))).await
    }

    /// Returns the rights that a token gives; `None` if it is unknown or no longer valid.
    pub async fn token_rights(&self, token: &str) -> Result<Option<TokenRights>, StateError> {
        let digest = digest(token);
        let digest = digest.as_slice();
        self.read("look up a token", call!(rights, digest)).await
    }
}

fn digest(token: &str) -> Vec<u8> {
    stored_revision(&Revision::digest(token.as_bytes()))
}

/// Returns random bytes as hex digits.
fn random_hex<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes.iter().fold(String::with_capacity(BYTES * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
}

/// Inserts a token; returns false if the owner has the most tokens already.
async fn insert(
    connection: &mut PgConnection,
    owner: i64,
    (id, digest): (&str, &[u8]),
    options: TokenOptions<'_>,
) -> Result<bool, CallError> {
    // Two daemons must not both create the last one.
    lock_owner(connection, owner).await?;
    let count = sqlx::query("SELECT count(*) AS number FROM tokens WHERE owner = $1").bind(owner);
    let tokens = single(&rows(connection, count).await?, |row| row.count("number"))?;
    if tokens >= u64::from(OWNER_TOKENS_MAX) {
        let ended =
            sqlx::query("DELETE FROM tokens WHERE owner = $1 AND ends_at <= clock_timestamp()");
        let deleted = run(connection, ended.bind(owner)).await?;
        if tokens.saturating_sub(deleted) >= u64::from(OWNER_TOKENS_MAX) {
            return Ok(false);
        }
    }
    let note = options.note().map(storable);
    let insert = sqlx::query(
        "INSERT INTO tokens (owner, id, digest, role, note, created_at, ends_at)
        VALUES ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp() + $6::interval)",
    );
    let insert = insert.bind(owner).bind(id).bind(digest).bind(options.role().as_ref());
    run(connection, insert.bind(note.as_deref()).bind(options.valid_for().map(interval))).await?;
    Ok(true)
}

async fn list(
    connection: &mut PgConnection,
    owner: Option<&str>,
) -> Result<Vec<StoredToken>, CallError> {
    let list = sqlx::query(
        "SELECT owners.name AS owner, tokens.id, role, note,
            (extract(epoch FROM created_at) * 1000000)::bigint * 1000 AS created_at,
            (extract(epoch FROM ends_at) * 1000000)::bigint * 1000 AS ends_at
        FROM tokens JOIN owners ON owners.id = tokens.owner
        WHERE $1::text IS NULL OR owners.name = $1
        ORDER BY owners.name, tokens.created_at, tokens.id",
    );
    let found = rows(connection, list.bind(owner)).await?;
    Ok(decode_rows("tokens", &found, stored_token))
}

fn stored_token(columns: Columns<'_>) -> ColumnResult<StoredToken> {
    Ok(StoredToken {
        owner: columns.get("owner")?,
        id: columns.get("id")?,
        role: role(columns)?,
        note: columns.get("note")?,
        created_at: time(columns.get("created_at")?).ok_or(InvalidValue)?,
        ends_at: columns.get::<Option<i64>>("ends_at")?.and_then(time),
    })
}

fn role(columns: Columns<'_>) -> ColumnResult<Role> {
    columns.get::<String>("role")?.parse().map_err(|_| InvalidValue)
}

async fn delete(
    connection: &mut PgConnection,
    (owner, id): (Option<&str>, &str),
) -> Result<bool, CallError> {
    let delete = sqlx::query(
        "DELETE FROM tokens WHERE id = $2
            AND ($1::text IS NULL OR owner = (SELECT id FROM owners WHERE name = $1))",
    );
    Ok(run(connection, delete.bind(owner).bind(id)).await? > 0)
}

async fn rights(
    connection: &mut PgConnection,
    digest: &[u8],
) -> Result<Option<TokenRights>, CallError> {
    let find = sqlx::query(
        "SELECT owners.name AS owner, role FROM tokens JOIN owners ON owners.id = tokens.owner
        WHERE digest = $1 AND (ends_at IS NULL OR ends_at > clock_timestamp())",
    );
    let found = rows(connection, find.bind(digest)).await?;
    let rights = found.first().map(|row| token_rights(Columns(row)));
    Ok(rights.transpose()?)
}

fn token_rights(columns: Columns<'_>) -> ColumnResult<TokenRights> {
    Ok(TokenRights { owner: columns.get("owner")?, role: role(columns)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_named_by_visible_text() {
        for name in ["a", "Ann Lee", "ann@example.org", "auth0|17", &"x".repeat(128)] {
            assert_eq!(name.parse::<OwnerName>().map(|name| name.0), Ok(name.to_owned()));
        }
        for name in ["", " ", " a", "a ", "a\nb", "a\0", &"x".repeat(129)] {
            assert_eq!(name.parse::<OwnerName>(), Err(InvalidOwnerName), "{name:?}");
            assert_eq!(OwnerName::existing(name), Err(InvalidOwnerName), "{name:?}");
        }
    }

    #[test]
    fn a_person_cannot_choose_the_name_of_a_subject() {
        let subject = OwnerName::of_subject(&Revision::digest(b"ann"));
        assert_eq!(OwnerName::existing(subject.as_str()), Ok(subject.clone()));
        assert_eq!(OwnerName::existing("ann"), "ann".parse());
        let upper = subject.as_str().to_uppercase().replace("OIDC", "oidc");
        for name in [subject.as_str(), "oidc:", "oidc:ann", &upper] {
            assert_eq!(name.parse::<OwnerName>(), Err(InvalidOwnerName), "{name}");
        }
        for name in ["oidc:", "oidc:ann", &upper, &format!("{} ", subject.as_str())] {
            assert_eq!(OwnerName::existing(name), Err(InvalidOwnerName), "{name}");
        }
    }
}

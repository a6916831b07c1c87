//! Finds secrets in table columns, where the heading names the secret, far from the value.
//!
//! It reads Markdown tables and separated values. A value counts only if it is plausible as a secret without other
//! evidence, because headings such as `token` are common in harmless tables.

use std::ops::Range;

use super::assignments;
use super::pattern::RuleHit;
use super::plausible::{
    AssignmentStyle, SecretKind, is_placeholder, is_plausible_secret, is_reference,
};
use crate::text::slice;

/// Headings of columns that hold passwords, in lower case.
const PASSWORDS: &[&str] = &[
    "password",
    "passwd",
    "passwort",
    "kennwort",
    "passphrase",
    "passcode",
    "pass",
    "pw",
    "pwd",
    "mot de passe",
    "contraseña",
    "contrasena",
    "senha",
    "wachtwoord",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
];

/// Headings of columns that hold tokens, in lower case.
const TOKENS: &[&str] =
    &["token", "secret", "api key", "api-key", "apikey", "api_key", "secret key", "secret_key"];

/// The longest line that counts as headings of separated values, in bytes.
const HEADINGS_MAX: usize = 120;

/// The columns of a table that hold secrets.
struct Columns {
    separator: char,
    count: usize,
    secret: Vec<(usize, SecretKind)>,
}

/// Adds the values below headings such as `password` and `API token`, in Markdown tables and in values separated by
/// commas, semicolons or tabs.
///
/// `named` are the lines that name a secret and so may be headings. Each line is read at most once, so the time is
/// linear in the text.
pub(super) fn find(text: &str, mut named: Vec<Range<usize>>, hits: &mut Vec<RuleHit>) {
    named.sort_by_key(|lines| lines.start);
    let mut done = 0;
    for lines in named {
        let mut start = lines.start.max(done);
        while start < lines.end {
            start = find_below(text, start, hits);
        }
        done = start.max(done);
    }
}

/// Reads the line at an offset as a heading, and the rows below it. Returns the end of the rows.
fn find_below(text: &str, position: usize, hits: &mut Vec<RuleHit>) -> usize {
    let mut lines = slice(text, position..).split_inclusive('\n');
    let heading = lines.next().unwrap_or_default();
    let mut start = position + heading.len().max(1);
    let mut rows = lines.clone();
    let below = rows.next().unwrap_or_default();
    let columns = if is_delimiter(below) {
        start += below.len();
        lines = rows;
        Columns::from_heading(heading, '|')
    } else {
        Columns::from_separated(heading)
    };
    let Some(columns) = columns else { return start };
    for line in lines.take_while(|line| columns.is_row(line)) {
        columns.find_in_row(line, start, hits);
        start += line.len();
    }
    start
}

/// Checks whether a line is the delimiter below the headings: `|---|:--|`.
fn is_delimiter(line: &str) -> bool {
    let marks = |byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t' | b'\r' | b'\n' | b'>');
    line.bytes().all(marks) && line.contains('|') && line.contains('-')
}

impl Columns {
    fn from_heading(line: &str, separator: char) -> Option<Self> {
        let kinds: Vec<_> = cells(line, separator).map(|(_, cell)| kind_of(cell)).collect();
        let count = kinds.len();
        let kinds = kinds.into_iter().enumerate();
        let secret: Vec<_> = kinds.filter_map(|(index, kind)| Some((index, kind?))).collect();
        (!secret.is_empty()).then_some(Self { separator, count, secret })
    }

    /// Parses the headings of separated values, which must be names and not a sentence.
    fn from_separated(line: &str) -> Option<Self> {
        if line.len() > HEADINGS_MAX {
            return None;
        }
        let separator = line.chars().find(|mark| matches!(mark, ',' | ';' | '\t'))?;
        let is_name = |cell: &str| {
            !cell.is_empty()
                && cell.chars().all(|letter| letter.is_alphanumeric() || " _-".contains(letter))
                && cell.split(' ').count() <= 2
        };
        let names = cells(line, separator).all(|(_, cell)| is_name(cell));
        names.then(|| Self::from_heading(line, separator)).flatten()
    }

    /// Checks whether a line is a row of the table.
    fn is_row(&self, line: &str) -> bool {
        let separators = line.matches(self.separator).count();
        if self.separator == '|' { separators > 0 } else { separators + 1 == self.count }
    }

    fn find_in_row(&self, line: &str, start: usize, hits: &mut Vec<RuleHit>) {
        for (column, (position, value)) in cells(line, self.separator).enumerate() {
            let kind = self.secret.iter().find(|(secret, _)| *secret == column);
            let harmless = is_placeholder(value) || is_reference(value, AssignmentStyle::Prose);
            if kind.is_some_and(|(_, kind)| {
                !harmless && is_plausible_secret(value, *kind, AssignmentStyle::Prose)
            }) {
                let from = start + position;
                hits.push(assignments::column_hit(from..from + value.len()));
            }
        }
    }
}

/// Returns the kind of secret in a column, by its heading.
fn kind_of(heading: &str) -> Option<SecretKind> {
    let heading = heading.to_lowercase();
    let heading = heading.strip_suffix('s').unwrap_or(&heading);
    let named = |words: &[&str]| {
        words.iter().any(|word| {
            let front = heading
                .strip_suffix(word)
                .or_else(|| heading.strip_suffix(word.strip_suffix('s')?));
            front.is_some_and(|front| !front.ends_with(char::is_alphanumeric))
        })
    };
    if named(PASSWORDS) {
        Some(SecretKind::Password)
    } else {
        named(TOKENS).then_some(SecretKind::Token)
    }
}

/// Returns the cells of a row without surrounding markup, with their offsets.
fn cells(line: &str, separator: char) -> impl Iterator<Item = (usize, &str)> {
    let row = line.trim_start_matches([' ', '>']);
    let row = if separator == '|' { row.strip_prefix('|').unwrap_or(row) } else { row };
    let mut position = line.len() - row.len();
    row.split(separator).map(move |cell| {
        let around =
            |mark: char| mark.is_whitespace() || matches!(mark, '*' | '_' | '`' | '"' | '\'');
        let value = cell.trim_start_matches(around);
        let start = position + cell.len() - value.len();
        position += cell.len() + separator.len_utf8();
        (start, value.trim_end_matches(around))
    })
}

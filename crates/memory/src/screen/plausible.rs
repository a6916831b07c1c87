//! Judges whether a value is a real secret.
//!
//! References to a variable or a vault, placeholders, prose and names of algorithms are not secrets. In doubt a
//! password counts as real and a token does not, because tokens are random and passwords often are not.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::text::has_word;

/// The kind of secret that a key names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// A password, often chosen by a person: a word and a number.
    Password,
    /// A generated token: random letters and digits.
    Token,
}

/// The style in which a value is assigned to its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AssignmentStyle {
    /// In quotation marks, which contain only the value.
    Quoted,
    /// As in a file of environment variables: `DB_PASSWORD=…`.
    Environment,
    /// After a colon or an equals sign, where prose may follow as well.
    Unquoted,
    /// In the next cell of a table: often a type or a description.
    Cell,
    /// After a verb or a dash: most likely prose.
    Prose,
}

pub(super) fn is_plausible_secret(text: &str, kind: SecretKind, tie: AssignmentStyle) -> bool {
    match (kind, tie) {
        (SecretKind::Token, AssignmentStyle::Prose) | (_, AssignmentStyle::Cell) => {
            is_striking(text, kind)
        }
        (SecretKind::Token, AssignmentStyle::Quoted) => {
            is_random(text) || (text.len() >= 20 && has_mixed_case(text) && !has_space(text))
        }
        (SecretKind::Token, AssignmentStyle::Environment | AssignmentStyle::Unquoted) => {
            is_random(text)
        }
        (SecretKind::Password, _) => is_password(text, tie),
    }
}

/// Checks whether a text is long enough and mixed enough to be generated.
pub(super) fn is_random(text: &str) -> bool {
    text.len() >= 8 && !has_space(text) && has_digit(text) && has_letter(text) && !is_wordy(text)
}

/// Checks whether a value differs clearly from prose, without other evidence. A password need not be as long or as
/// mixed as a token for that.
fn is_striking(text: &str, kind: SecretKind) -> bool {
    let mixed = text.len() >= 16
        || has_mixed_case(text)
        || text.bytes().any(|byte| byte.is_ascii_punctuation());
    is_random(text)
        && !is_path(text)
        && !text.contains("://")
        && !text.contains('(')
        && (mixed || kind == SecretKind::Password)
}

/// Checks whether a value may be a password that a person chose.
pub(super) fn is_password(text: &str, tie: AssignmentStyle) -> bool {
    if has_space(text) {
        return tie == AssignmentStyle::Quoted && text.len() >= 12 && !is_prose(text);
    }
    if is_technical(text) || is_path(text) {
        return false;
    }
    if tie == AssignmentStyle::Prose && (is_measure(text) || is_address(text) || text.contains('('))
    {
        return false;
    }
    if has_digit(text) {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let least = if is_number && tie == AssignmentStyle::Prose { 8 } else { 6 };
        return text.len() >= least && (has_letter(text) || is_number);
    }
    let body = text.trim_end_matches(['!', '?', '.']);
    let strange = body.contains(['!', '#', '$', '%', '^', '&', '?', '~', '+', '=', '@']);
    match tie {
        AssignmentStyle::Quoted | AssignmentStyle::Environment => {
            text.len() >= 6 && has_letter(text)
        }
        AssignmentStyle::Unquoted | AssignmentStyle::Cell | AssignmentStyle::Prose => {
            text.len() >= 8 && strange && has_letter(text)
        }
    }
}

/// Checks whether a value is not a word, even with a number: it mixes letters and digits, has marks in between, or
/// inner capitals.
pub(super) fn is_generated(text: &str) -> bool {
    if has_space(text) || is_technical(text) || is_path(text) || is_address(text) {
        return false;
    }
    // A letter beyond ASCII at the beginning makes it a word.
    let inner = text.get(1..).unwrap_or_default();
    let strange = inner.trim_end_matches(['!', '.']).contains(['!', '#', '$', '%', '^', '&', '*']);
    let capitals = has_mixed_case(text)
        && (inner.contains('_') || inner.bytes().any(|byte| byte.is_ascii_uppercase()));
    text.len() >= 6
        && has_letter(text)
        && (strange || (has_digit(text) && (capitals || !is_wordy(text))))
}

/// Units that directly follow a number; others have a dash before them.
const UNITS: &[&str] = &[
    "", "bit", "bits", "byte", "bytes", "char", "chars", "d", "days", "digits", "h", "hours", "kb",
    "mb", "min", "mins", "ms", "nd", "px", "rd", "s", "sec", "st", "th", "x",
];

/// Checks whether a text is a short number with its unit, or a version: `12-character`, `v2.1`.
fn is_measure(text: &str) -> bool {
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let rest = text.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == '.');
    let is_unit = UNITS.contains(&rest)
        || (rest.starts_with('-')
            && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
    (1..=4).contains(&(text.len() - rest.len())) && is_unit
}

/// Checks whether a text is an e-mail address or a URL.
fn is_address(text: &str) -> bool {
    let host = text.rsplit_once('@').map_or("", |(_, host)| host);
    text.contains("://")
        || (host.contains('.')
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)))
}

/// Words that describe a passphrase instead of being part of one.
const DESCRIBING: &str = "
    always ask changed characters chosen encrypted generated known kept letters longer maximum
    minimum missing never optional printed protected random required rotated same stored unknown
    words written
";

/// Checks whether words describe a passphrase instead of being one.
pub(super) fn is_description(text: &str) -> bool {
    is_prose(text) || text.split(' ').any(|word| has_word(DESCRIBING, word))
}

/// Checks whether a value is masked: `***`, `xxxx`.
pub(super) fn is_masked(text: &str) -> bool {
    let mask = |byte: u8| matches!(byte, b'x' | b'X' | b'*' | b'.' | b'#' | b'-' | b'_');
    let run = text.as_bytes().windows(8).any(|window| {
        window.iter().all(|byte| matches!(byte, b'x' | b'X'))
            || window.iter().all(|byte| *byte == b'*')
    });
    run || text.bytes().all(mask)
}

/// Words that are written instead of a secret, and the logins of default installations.
const PLACEHOLDERS: &str = "
    admin changeit default dev disabled docker empty enabled env false foo foobar guest hidden
    keychain keyring masked minioadmin mongo mysql nil none null omitted optional pass postgres
    pwd redis removed required root string tba tbd test testing todo true undefined unknown
    unset user username value vault
";

/// Parts of a value that mark a placeholder.
const FILL_IN: &str = "
    your placeholder changeme change-me change_me redacted replace -here _here ... … *** xxxx
    •••
";

/// Words that, without a digit beside them, name a secret instead of being one.
const NAMES: &str = "
    password passwd passwort passphrase kennwort secret token apikey api_key api-key example
    sample beispiel ejemplo exemple
";

/// Checks whether a value is a placeholder.
pub(super) fn is_placeholder(text: &str) -> bool {
    let lower = text.to_lowercase();
    let lower = lower.trim_matches(['[', ']', '{', '}', '(', ')']);
    let digits = has_digit(lower);
    lower.is_empty()
        || has_word(PLACEHOLDERS, lower)
        || FILL_IN.split_whitespace().any(|part| lower.contains(part))
        || (!digits && NAMES.split_whitespace().any(|name| lower.contains(name)))
        || lower.chars().all(|mark| matches!(mark, 'x' | '*' | '•' | '.' | '#' | '-' | '_' | '?'))
}

/// The beginnings of references to a secret that is stored elsewhere.
const REFERENCES: &str = "
    $ { % #{ < @ op:// vault: env: env. file: arn: ssm: kms: secretsmanager: sops: enc[ secret/
    kv/ secrets. process.env os.environ os.getenv import.meta /run/ /etc/ /var/ // ~/ ./ ../
";

/// Checks whether a value refers to a secret instead of being one.
pub(super) fn is_reference(text: &str, tie: AssignmentStyle) -> bool {
    let lower = text.to_lowercase();
    if REFERENCES.split_whitespace().any(|start| lower.starts_with(start)) {
        return true;
    }
    let constant = text.contains('_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let code = tie != AssignmentStyle::Quoted
        && (text.contains(['(', '[', '{'])
            || text.starts_with(['!', '&', '*', '|'])
            || is_member(text));
    constant || code || text.contains("://") || text.contains("{{") || text.contains("${")
}

/// Checks whether a text is code that names a field: `config.db.password2`.
fn is_member(text: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && is_word(part.trim_matches('_'))
    };
    text.contains('.') && text.split(['.', '?']).filter(|part| !part.is_empty()).all(is_name)
}

pub(super) fn is_path(text: &str) -> bool {
    text.contains('/') && is_wordy(text)
}

/// Names with digits of things that handle secrets.
static TECHNICAL: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "1password 2fa aes128 aes256 argon2 argon2i argon2id base32 base58 base64 base64url bcrypt
    blake2b blake3 ec2 ed25519 es256 fido2 hs256 hs512 iso27001 k8s md5 oauth2 p256 pbkdf2
    pkcs12 pkcs8 rs256 rsa2048 rsa4096 s3 saml2 scram sha1 sha256 sha512 u2f utf8 x25519 x509"
        .split_whitespace()
        .collect()
});

/// Types of columns and fields, which are followed by their length.
const TYPES: &[&str] = &["binary", "char", "nvarchar", "uint", "varbinary", "varchar"];

/// Checks whether a text with digits is a technical name, alone or combined with words.
fn is_technical(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let joined = lower.replace(['-', '_'], "");
    let part_is = |part: &str| {
        TECHNICAL.contains(part)
            || TYPES.contains(&part.trim_end_matches(|digit: char| digit.is_ascii_digit()))
    };
    part_is(&joined)
        || (lower.split(['-', '_', '.', '/']).any(part_is)
            && lower.split(['-', '_', '.', '/']).all(|part| part_is(part) || !has_digit(part)))
}

/// Checks whether a text consists of words and short numbers: `prod-db-2`, `kv/data/api`, `24h`.
pub(super) fn is_wordy(text: &str) -> bool {
    let parts = || text.split(['-', '_', '.', '/', ':', '@', '+', ',', '=', '?', '&', '#']);
    is_technical(text) || parts().all(|part| part.is_empty() || is_word(part))
}

/// Checks whether a part of a text is a word, a short number, or a word with a short number.
fn is_word(part: &str) -> bool {
    let letters = part.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let digits = part.len() - letters.len();
    let unit = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let numbered = digits <= 2 && !has_digit(letters) && !is_jumbled(letters);
    let number = digits <= 4 && letters.is_empty();
    let measured = part.len() - unit.len() <= 4 && unit.len() <= 5 && !has_digit(unit);
    numbered || number || measured || TECHNICAL.contains(part.to_ascii_lowercase().as_str())
}

/// Checks whether capitals are in positions where neither words nor names of programs have them.
fn is_jumbled(letters: &str) -> bool {
    let bytes = letters.as_bytes();
    let rises = bytes
        .windows(2)
        .filter(|pair| {
            pair.iter().any(u8::is_ascii_uppercase) && !pair.iter().all(u8::is_ascii_uppercase)
        })
        .count();
    rises * 3 > letters.len() && letters.len() >= 8
}

/// Frequent function words in some languages: nearly every sentence has one.
const FUNCTION_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "ask", "at", "be", "by", "can", "for", "from", "has", "in",
    "is", "it", "its", "must", "no", "not", "of", "on", "only", "or", "see", "set", "should",
    "that", "the", "this", "to", "use", "used", "via", "when", "will", "with", "you", "your",
    "aus", "das", "der", "die", "für", "fur", "im", "ist", "mit", "und", "von", "de", "des", "du",
    "est", "la", "le", "les", "el", "en", "es", "los", "para", "по", "в", "на", "и",
];

fn is_prose(text: &str) -> bool {
    text.split(|separator: char| !separator.is_alphanumeric())
        .any(|word| FUNCTION_WORDS.contains(&word.to_lowercase().as_str()))
}

pub(super) fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

pub(super) fn has_letter(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
}

fn has_space(text: &str) -> bool {
    text.contains(char::is_whitespace)
}

pub(super) fn has_mixed_case(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_uppercase())
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
}

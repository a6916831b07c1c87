//! Secrets that are told by what stands around them: assignments, logins, headers.
//!
//! `password = …` says that a value follows, not that it is a real one. So the patterns here are
//! wide, and the value decides: references to a variable or a vault, placeholders, words of prose
//! and names of algorithms pass. When in doubt a password is taken to be real and a token is not,
//! for tokens are random and passwords often are not.

use std::ops::Range;

use super::catalog::{Found, Pattern, Reach};
use super::scan::Hit;
use super::{Family, Rule};

/// The shapes, in the order of the documentation.
pub(super) const PATTERNS: &[Pattern] = &[
    Pattern {
        rule: URL_CREDENTIALS,
        words: &["://"],
        source: concat!(
            r"\b[A-Za-z][A-Za-z0-9+.-]{1,24}://",
            r#"[^\s/:@?#"'`<>]*:([^\s/@"'`<>]+)@[A-Za-z0-9\[$({_]"#,
        ),
        reach: Reach::Line,
        judge: password_of_url,
    },
    Pattern {
        rule: AUTHORIZATION_HEADER,
        words: &["authorization", "bearer"],
        source: concat!(
            r#"(?i)(?:authorization\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?|\b)"#,
            r"(?:bearer|basic|token)\s{1,4}([A-Za-z0-9._~+/-]{12,}={0,2})",
        ),
        reach: Reach::Line,
        judge: credential_of_header,
    },
    Pattern {
        rule: COMMAND_LINE,
        words: &[" -u", " -p", "--user", "--pass", "--token", "--secret", "key", "sshpass"],
        source: concat!(
            r#"(?:\b(?:curl|wget|https?|xh)\b[^\n]*?\s(?:-u|--user)[ =]?["']?[^\s:"'@/]{1,64}:"#,
            r"|\bsshpass\s+-p\s{0,2}|\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n]*?\s-p",
            r"|(?:^|\s)--(?:password|passwd|pass|token|secret|api-?key|access-?key|secret-?key",
            r"|(?:access|auth|api)-token|client-secret)[ =])",
            r#"["']?([^\s"'`<>]{3,})"#,
        ),
        reach: Reach::Line,
        judge: value_of_option,
    },
    Pattern {
        rule: ASSIGNMENT,
        words: &[
            "passw",
            "passphrase",
            "passcode",
            "pwd",
            "secret",
            "token",
            "key",
            "kennwort",
            "mot de passe",
            "contrase",
            "senha",
            "пароль",
            "密码",
            "密碼",
            "パスワード",
            "비밀번호",
        ],
        source: concat!(
            r"(?i)(password|passwd|passphrase|passcode|passwort|kennwort|pwd|mot de passe",
            r"|contrasena|senha|пароль|密码|密碼|パスワード|비밀번호",
            r"|secret|token|(?:api|shared|access|secret|private|signing|encryption|master|auth|account)",
            r"[_ -]?key)",
            r#"(?:\\?["'`]|[\])*]){0,3}"#,
            r"(?:\s(?:for|of|to|on|in|at|fur|von|de|du|para|к|от)\s[^\n:=.,;|]{1,60}?)?",
            r"(\s{0,8}(?::=|=>|==?|:|：|->|→)\s{0,8}",
            r"|\s{0,8}\|\s{0,8}|\s+(?:is|was|are|ist|lautet|war|est|es|это)\s+:?\s{0,4}",
            r"|\s{0,2}(?:是|は|은|는)\s{0,2})",
            r#"[*_]{0,2}\\?[rbf]?(?:"([^"\n]+)"|'([^'\n]+)'|`([^`\n]+)`"#,
            r#"|([^\s"'`,;<>|]+))"#,
        ),
        reach: Reach::Line,
        judge: assigned_value,
    },
];

const URL_CREDENTIALS: Rule =
    rule("secrets.url-credentials", "passwords in URLs, such as those of databases");
const AUTHORIZATION_HEADER: Rule =
    rule("secrets.authorization-header", "credentials in HTTP headers");
const COMMAND_LINE: Rule =
    rule("secrets.command-line", "credentials given to a command as options");
const ASSIGNMENT: Rule = rule(
    "secrets.assignment",
    "values that are said to be a password, secret, token or key and look like one",
);

const fn rule(id: &'static str, about: &'static str) -> Rule {
    Rule { id, family: Family::Secrets, about }
}

/// Returns whether a hit is of a rule that only sees what stands around a value.
pub(super) fn is_loose(hit: &Hit) -> bool {
    [URL_CREDENTIALS, AUTHORIZATION_HEADER, COMMAND_LINE, ASSIGNMENT].contains(&hit.rule)
}

/// What a key says about its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Chosen by a person, as often as not: a word and a number.
    Password,
    /// Made by a machine: letters and digits without sense.
    Token,
}

/// How a value is tied to its key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tie {
    /// In quotation marks, so nothing but the value.
    Quoted,
    /// As in a file of environment variables: `DB_PASSWORD=…`.
    Environment,
    /// After a colon or an equals sign, where prose may go on as well.
    Bare,
    /// After a verb, or in the next cell of a table: most likely prose.
    Spoken,
}

fn password_of_url(found: &Found<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(1)?;
    // Nobody has a password as short as those of the examples: `user:pw@host`.
    let harmless = value.len() < 4 || is_placeholder(value) || is_reference(value, Tie::Bare);
    (!harmless).then_some(range)
}

fn credential_of_header(found: &Found<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(1)?;
    let real = !is_placeholder(value) && is_random(value) && !is_path(value);
    real.then_some(range)
}

fn value_of_option(found: &Found<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(1)?;
    let value = value.trim_end_matches([')', ']', '}', '.', ',', ';', '\\']);
    let harmless = is_placeholder(value) || is_reference(value, Tie::Bare);
    let real = !harmless && value.len() >= 6 && has_digit(value) && has_letter(value);
    real.then(|| range.start..range.start + value.len())
}

/// Marks that tie a value to its key directly; the other ties are words and cells of tables.
const ASSIGNING: &[&str] = &[":", "：", "=", "==", ":=", "=>", "->", "→"];

/// The first character of the Chinese, Japanese and Korean blocks.
const FIRST_OF_UNSPACED: char = '\u{2E80}';

fn assigned_value(found: &Found<'_>) -> Option<Range<usize>> {
    let (key, _) = found.group(1)?;
    let (operator, _) = found.group(2)?;
    let quoted = (3..=5).find_map(|group| found.group(group));
    let (value, range, in_quotes) = if let Some((value, range)) = quoted {
        (value.trim_end_matches('\\'), range, true)
    } else {
        let (value, range) = found.group(6)?;
        // Scripts that write no spaces go on directly behind the value.
        let value = value.split(|letter| letter >= FIRST_OF_UNSPACED).next().unwrap_or_default();
        let end = ['.', ')', ']', '}', '*', ':', '\\', '?'];
        (value.trim_end_matches(end), range, false)
    };
    let is_token = ["secret", "token", "key"].iter().any(|word| ends_with(key, word));
    let kind = if is_token { Kind::Token } else { Kind::Password };
    let upper_case = has_letter(key) && !key.bytes().any(|byte| byte.is_ascii_lowercase());
    let tie = if !ASSIGNING.contains(&operator.trim()) {
        Tie::Spoken
    } else if in_quotes {
        Tie::Quoted
    } else if upper_case && operator == "=" {
        Tie::Environment
    } else {
        Tie::Bare
    };
    let real = !is_placeholder(value) && !is_reference(value, tie) && is_real(value, kind, tie);
    real.then(|| range.start..range.start + value.len())
}

fn is_real(text: &str, kind: Kind, tie: Tie) -> bool {
    match (kind, tie) {
        (kind, Tie::Spoken) => is_striking(text, kind),
        (Kind::Token, Tie::Quoted) => {
            is_random(text) || (text.len() >= 20 && has_mixed_case(text) && !has_space(text))
        }
        (Kind::Token, Tie::Environment | Tie::Bare) => is_random(text),
        (Kind::Password, _) => is_password(text, tie),
    }
}

/// Returns whether a text is long enough and mixed enough to be made by a machine.
fn is_random(text: &str) -> bool {
    text.len() >= 8 && !has_space(text) && has_digit(text) && has_letter(text) && !is_wordy(text)
}

/// Returns whether a value stands out from prose even without a sign that it is one. A password
/// need not be as long or as mixed as a token for that.
fn is_striking(text: &str, kind: Kind) -> bool {
    let mixed = text.len() >= 16
        || has_mixed_case(text)
        || text.bytes().any(|byte| byte.is_ascii_punctuation());
    is_random(text)
        && !is_path(text)
        && !text.contains("://")
        && !text.contains('(')
        && (mixed || kind == Kind::Password)
}

fn is_password(text: &str, tie: Tie) -> bool {
    if has_space(text) {
        return tie == Tie::Quoted && text.len() >= 12 && !is_prose(text);
    }
    if is_technical(text) || is_path(text) {
        return false;
    }
    if has_digit(text) {
        return text.len() >= 6
            && (has_letter(text) || text.bytes().all(|byte| byte.is_ascii_digit()));
    }
    let body = text.trim_end_matches(['!', '?', '.']);
    let strange = body.contains(['!', '#', '$', '%', '^', '&', '?', '~', '+', '=', '@']);
    match tie {
        Tie::Quoted | Tie::Environment => text.len() >= 6 && has_letter(text),
        Tie::Bare | Tie::Spoken => text.len() >= 8 && strange && has_letter(text),
    }
}

/// Returns whether a value stands for itself and no longer for a secret: `***`, `xxxx`.
pub(super) fn is_masked(text: &str) -> bool {
    let mask = |byte: u8| matches!(byte, b'x' | b'X' | b'*' | b'.' | b'#' | b'-' | b'_');
    let run = text.as_bytes().windows(8).any(|window| {
        window.iter().all(|byte| matches!(byte, b'x' | b'X'))
            || window.iter().all(|byte| *byte == b'*')
    });
    run || text.bytes().all(mask)
}

/// Words that are put where a secret would be, and the logins that every default installation has.
const PLACEHOLDERS: &[&str] = &[
    "admin",
    "changeit",
    "default",
    "dev",
    "disabled",
    "docker",
    "empty",
    "enabled",
    "env",
    "false",
    "foo",
    "foobar",
    "guest",
    "hidden",
    "keychain",
    "keyring",
    "masked",
    "minioadmin",
    "mongo",
    "mysql",
    "nil",
    "none",
    "null",
    "omitted",
    "optional",
    "pass",
    "postgres",
    "pwd",
    "redis",
    "removed",
    "required",
    "root",
    "string",
    "tba",
    "tbd",
    "test",
    "testing",
    "todo",
    "true",
    "undefined",
    "unknown",
    "unset",
    "user",
    "username",
    "value",
    "vault",
];

/// Parts of a value that say that it is to be filled in.
const FILL_IN: &[&str] = &[
    "your",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "redacted",
    "replace",
    "-here",
    "_here",
    "...",
    "…",
    "***",
    "xxxx",
    "•••",
];

/// Words that, without a digit beside them, name a secret instead of being one.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "passwort",
    "passphrase",
    "kennwort",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "example",
    "sample",
    "beispiel",
    "ejemplo",
    "exemple",
];

/// Returns whether a value is one in name only.
pub(super) fn is_placeholder(text: &str) -> bool {
    let lower = text.to_lowercase();
    let lower = lower.trim_matches(['[', ']', '{', '}', '(', ')']);
    let digits = has_digit(lower);
    lower.is_empty()
        || PLACEHOLDERS.contains(&lower)
        || FILL_IN.iter().any(|part| lower.contains(part))
        || (!digits && NAMES.iter().any(|name| lower.contains(name)))
        || lower.chars().all(|mark| matches!(mark, 'x' | '*' | '•' | '.' | '#' | '-' | '_' | '?'))
}

/// How references to a secret that is kept elsewhere begin.
const REFERENCES: &[&str] = &[
    "$",
    "{",
    "%",
    "#{",
    "<",
    "@",
    "op://",
    "vault:",
    "env:",
    "env.",
    "file:",
    "arn:",
    "ssm:",
    "kms:",
    "secretsmanager:",
    "sops:",
    "enc[",
    "secret/",
    "kv/",
    "secrets.",
    "process.env",
    "os.environ",
    "os.getenv",
    "import.meta",
    "/run/",
    "/etc/",
    "/var/",
    "//",
    "~/",
    "./",
    "../",
];

/// Returns whether a value says where the secret is instead of what it is.
fn is_reference(text: &str, tie: Tie) -> bool {
    let lower = text.to_lowercase();
    if REFERENCES.iter().any(|start| lower.starts_with(start)) {
        return true;
    }
    let constant = text.contains('_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let code = tie != Tie::Quoted
        && (text.contains(['(', '[', '{'])
            || text.starts_with(['!', '&', '*', '|'])
            || is_member(text));
    constant || code || text.contains("://") || text.contains("{{") || text.contains("${")
}

/// Returns whether a text is code that names a field: `config.db.password2`.
fn is_member(text: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && is_word(part.trim_matches('_'))
    };
    text.contains('.') && text.split(['.', '?']).filter(|part| !part.is_empty()).all(is_name)
}

fn is_path(text: &str) -> bool {
    text.contains('/') && is_wordy(text)
}

/// Names with digits of things that handle secrets.
const TECHNICAL: &[&str] = &[
    "1password",
    "2fa",
    "aes128",
    "aes256",
    "argon2",
    "argon2i",
    "argon2id",
    "base32",
    "base58",
    "base64",
    "base64url",
    "bcrypt",
    "blake2b",
    "blake3",
    "ec2",
    "ed25519",
    "es256",
    "fido2",
    "hs256",
    "hs512",
    "iso27001",
    "k8s",
    "md5",
    "oauth2",
    "p256",
    "pbkdf2",
    "pkcs12",
    "pkcs8",
    "rs256",
    "rsa2048",
    "rsa4096",
    "s3",
    "saml2",
    "scram",
    "sha1",
    "sha256",
    "sha512",
    "u2f",
    "utf8",
    "x25519",
    "x509",
];

/// Returns whether a text with digits is the name of a technique, alone or with words beside it.
fn is_technical(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let joined = lower.replace(['-', '_'], "");
    let part_is = |part: &str| TECHNICAL.contains(&part);
    part_is(&joined)
        || (lower.split(['-', '_', '.', '/']).any(part_is)
            && lower.split(['-', '_', '.', '/']).all(|part| part_is(part) || !has_digit(part)))
}

/// Returns whether a text reads as words and short numbers: `prod-db-2`, `kv/data/api`, `24h`.
fn is_wordy(text: &str) -> bool {
    let parts = || text.split(['-', '_', '.', '/', ':', '@', '+', ',', '=', '?', '&', '#']);
    is_technical(text) || parts().all(|part| part.is_empty() || is_word(part))
}

/// Returns whether a part of a text is a word, a short number, or a word with a short number.
fn is_word(part: &str) -> bool {
    let letters = part.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let digits = part.len() - letters.len();
    let unit = part.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let numbered = digits <= 2 && !has_digit(letters) && !is_jumbled(letters);
    let number = digits <= 4 && letters.is_empty();
    let measured = part.len() - unit.len() <= 4 && unit.len() <= 5 && !has_digit(unit);
    numbered || number || measured || TECHNICAL.contains(&part.to_ascii_lowercase().as_str())
}

/// Returns whether capitals stand where no word and no name of a program has them.
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

/// Words without which few sentences do, in some languages.
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

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn has_letter(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
}

fn has_space(text: &str) -> bool {
    text.contains(char::is_whitespace)
}

fn has_mixed_case(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_uppercase())
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Returns whether a text ends with a word, in either case.
fn ends_with(text: &str, word: &str) -> bool {
    text.to_ascii_lowercase().ends_with(word)
}

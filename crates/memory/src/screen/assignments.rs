//! Patterns for secrets that are recognized by their context: assignments, logins, headers.
//!
//! `password = …` shows that a value follows, but not that it is a real secret. So the patterns here are wide, and
//! [`plausible`](super::plausible) judges the value.

use std::ops::Range;

use super::pattern::{Pattern, PatternMatch, PatternWindow, RuleHit};
use super::plausible::{
    AssignmentStyle, SecretKind, has_digit, has_letter, has_mixed_case, is_description,
    is_generated, is_password, is_path, is_placeholder, is_plausible_secret, is_random,
    is_reference,
};
use super::{Family, Rule};

/// A value, in quotation marks or up to the next space; groups 3 to 6 of an assignment.
macro_rules! value {
    () => {
        r#"[*_]{0,2}\\?(?:[rbf]?"([^"\n]+)"|[rbf]?'([^'\n]+)'|`([^`\n]+)`|(?:「|『)?([^\s"'`,;<>|]+))"#
    };
}

/// Marks between a key and its value, in every language; part of group 2 of an assignment.
macro_rules! marks {
    () => {
        r"\s{0,8}(?::=|=>|==?|:|：|->|→)\s{0,8}|\s{0,8}\|\s{0,8}|\s{1,4}-{1,3}\s{1,4}"
    };
}

/// Words that connect a key to its purpose (`password of the router`), with the purpose.
macro_rules! purpose {
    () => {
        concat!(
            r"(?:\s(?:for|of|to|on|in|at|from|furs?|von|vom|zum|zur|im|am|de[lr]?|d[aeiou]s?|della|dello",
            r"|para|pour|per|van|voor|na|dla|pro|till?|cho|untuk|к|от|для|на|админа)",
            r"(?:\s[^\n:=.,;|]{1,60}?)?)?(?:\s?\([^)\n]{1,60}\))?",
        )
    };
}

/// The patterns, in the order of the documentation.
pub(super) const PATTERNS: &[Pattern] = &[
    Pattern {
        rule: URL_CREDENTIALS,
        words: &["://"],
        source: concat!(
            r"\b[A-Za-z][A-Za-z0-9+.-]{1,24}://",
            r#"[^\s/:@?#"'`<>]*:([^\s/@"'`<>]+)@[A-Za-z0-9\[$({_]"#,
        ),
        reach: PatternWindow::Line,
        judge: password_of_url,
    },
    Pattern {
        rule: AUTHORIZATION_HEADER,
        words: &["authorization", "bearer"],
        source: concat!(
            r#"(?i)(?:(authorization)\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?|\b)"#,
            r"(?:bearer|(basic)|token)\s{1,4}([A-Za-z0-9._~+/-]{8,}={0,2})",
        ),
        reach: PatternWindow::Line,
        judge: credential_of_header,
    },
    Pattern {
        rule: COOKIE,
        words: &["cookie"],
        source: concat!(
            r#"(?i)(?:cookies?\\?["']?\s{0,4}[:=]\s{0,4}\\?|(?:^|[\s;"'`])([\w.-]{0,40}"#,
            r"(?:sess|sid|auth|token|jwt|remember|login|csrf|xsrf|secret)))",
            r#"["'`]?[\w.-]{0,40}=\s{0,1}["']?([^\s;,"'`<>\\]{12,})"#,
        ),
        reach: PatternWindow::Line,
        judge: value_of_cookie,
    },
    Pattern {
        rule: COMMAND_LINE,
        words: &[
            " -u", " -su", " -a", " -p", "--auth", "--user", "--pass", "--token", "--secret",
            "key", "sshpass",
        ],
        source: concat!(
            r#"(?:\b(?:curl|wget|https?|xh)\b[^\n]*?\s(?:-s?u|-a|--user|--auth)[ =]?["']?[^\s:"'@/]{1,64}:"#,
            r"|\bredis-cli\b[^\n]*?\s-a\s{1,2}|\b(?:docker|podman|helm)\b[^\n]*?\slogin\b[^\n]*?\s-p\s{1,2}",
            r"|\bsshpass\s+-p\s{0,2}|\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n]*?\s-p",
            r"|(?:^|\s)--(?:password|passwd|pass|token|secret|api-?key|access-?key|secret-?key",
            r"|(?:access|auth|api)-token|client-secret)[ =])",
            r#"["']?([^\s"'`<>]{3,})"#,
        ),
        reach: PatternWindow::Line,
        judge: value_of_option,
    },
    Pattern {
        rule: LOGIN,
        words: &["machine ", "default login"],
        source: concat!(
            r"\b(?:machine\s{1,4}([^\s]{1,120})|default)\s{1,8}login\s{1,4}([^\s]{1,120})",
            r#"\s{1,8}(?:account\s{1,4}[^\s]{1,60}\s{1,8})?password\s{1,4}["']?([^\s"'`]+)"#,
        ),
        reach: PatternWindow::ToEnd,
        judge: password_of_netrc,
    },
    Pattern {
        rule: LOGIN,
        words: &[
            "login",
            "log in",
            "logged in",
            "sign in",
            "credential",
            "creds",
            "zugang",
            "anmeldedaten",
            "identifiants",
            "credencia",
            "credenzial",
            "inloggegevens",
        ],
        source: concat!(
            r"(?i)\b(?:log-?ins?|log(?:ged)? in|sign in|credentials?|creds|zugang(?:sdaten)?",
            r"|anmeldedaten|identifiants|credencia(?:le)?s|credenziali|inloggegevens)\b",
            r#"[^\n]{0,60}?(?:[\s"'`(:])([A-Za-z][\w.@-]{1,40}?)(?::|\s/\s)["'`]?([^\s"'`<>|]{6,})"#,
        ),
        reach: PatternWindow::Line,
        judge: password_of_pair,
    },
    Pattern {
        rule: LOGIN,
        words: &[
            "password ",
            "passwort ",
            "kennwort ",
            "passwd ",
            " pw ",
            " pass ",
            "пароль ",
            "contrase",
            "senha ",
            "mdp ",
            "mot de passe ",
            "hasło ",
            "sifre ",
        ],
        source: concat!(
            r"(?i)(?:(?:[,;]|\b(?:with|and|use|using|mit|und|user\s[^\s]{1,40}|login\s[^\s]{1,40}))",
            r"\s(?:(?:the|dem|das)\s)?(?:password|passwort|kennwort|passwd|pass|pw)",
            r"|пароль(?:\sадмина)?|contrasena|senha|\bmdp|mot de passe|hasło|sifre)",
            r#"\s()["'`]?([^\s"'`<>|,;]{6,})"#,
        ),
        reach: PatternWindow::Line,
        judge: password_of_pair,
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
            "pass:",
            "pass=",
            "pass ",
            "pass\"",
            "pass'",
            "pw:",
            "pw=",
            "pw ",
            "pw\"",
            "pw'",
            "pass|",
            "pass,",
            "pass;",
            "pw|",
            "pw,",
            "pw;",
            "pass\t",
            "pw\t",
            "pass\n",
            "pw\n",
            "recovery code",
            "backup code",
            "otp seed",
        ],
        source: concat!(
            r"(?i)(password|passwd|passphrase|passcode|passwort|kennwort|pwd|\bpass|\bpw|_pass|_pw",
            r"|secret|token|(?:api|shared|access|secret|private|deploy|webhook|signing|encryption|master|auth|account|licen[cs]e|product|activation)",
            r"[_ -]?key|(?:recovery|backup) code|otp seed)",
            r#"s?(?:\\?["'`]|[\])*]){0,3}"#,
            purpose!(),
            r"(?:\s(?:we|i|to)\suse)?(",
            marks!(),
            r"|\s+(?:(?:(?:is|was|been|got|now)\s){0,2}(?:set|changed|reset|updated)\sto|is|are|was|became|ist|lautet|war|est|es|e)",
            r"(?:\s(?:now|still|currently|just|jetzt|nun|aktuell))?(?:\s?:)?\s{1,4}|'s\s{1,4})",
            value!(),
        ),
        reach: PatternWindow::Line,
        judge: assigned_value,
    },
    Pattern {
        rule: LOGIN,
        words: &[".com:", ".net:", ".org:", ".com / ", ".net / ", ".org / ", ".com | ", ".com;"],
        source: concat!(
            r"\b[\w.+-]{1,40}(@)[\w-]{1,40}(?:\.[\w-]{1,20}){1,3}\s?[:/|;]\s?",
            r#"["'`]?([^\s"'`<>|,;]{6,})"#,
        ),
        reach: PatternWindow::Line,
        judge: password_of_pair,
    },
    // Assignments in other languages, with words that have no other meaning.
    Pattern {
        rule: ASSIGNMENT,
        words: &[
            "mot de passe",
            "mdp",
            "contrase",
            "clave",
            "senha",
            "parola",
            "wachtwoord",
            "losenord",
            "adgangskode",
            "passord",
            "salasana",
            "hasło",
            "heslo",
            "jelszo",
            "sifre",
            "mat khau",
            "kata sandi",
            "ароль",
            "密码",
            "密碼",
            "口令",
            "パスワード",
            "暗証番号",
            "비밀번호",
            "비번",
            "كلمة المرور",
            "كلمة السر",
            "पासवर्ड",
            "รหัสผ่าน",
            "סיסמה",
            "סיסמא",
        ],
        source: concat!(
            r"(?i)(mot de passe|\bmdp|contrasena|\bclave|senha|parola d'ordine|parola|wachtwoord",
            r"|losenord(?:et)?|adgangskoden?|passord(?:et)?|salasana|hasło|heslo|jelszo|sifre(?:si)?",
            r"|mat khau|kata sandi|(?:п|П)ароль|密码|密碼|口令|パスワード|暗証番号|비밀번호|비번",
            r"|كلمة المرور|كلمة السر|पासवर्ड|รหัสผ่าน|סיסמה|סיסמא)",
            r#"(?:\\?["'`]|[\])*]){0,3}"#,
            purpose!(),
            r#"(?:\s[^\s:=.,;|"'`]{2,12}){0,2}?("#,
            marks!(),
            r"|\s+(?:es|est|e|is|to|je|jest|on|ar|er|la|adalah|это)(?:\s(?:ahora|maintenant|agora|adesso|nu|ora|teraz))?(?:\s?:)?\s{1,4}",
            r"|\s{0,2}(?:是|为|為|は|은|는)\s{0,2})",
            value!(),
        ),
        reach: PatternWindow::Line,
        judge: assigned_value,
    },
    Pattern {
        rule: ASSIGNMENT,
        words: &["_key=", "_key ="],
        source: concat!(
            r"\b([A-Z][A-Z0-9_]{1,40}_KEY)(\s?=\s?)",
            r#"(?:"([^"\n]{16,})"|'([^'\n]{16,})'|`([^`\n]{16,})`|([^\s"'`,;<>|]{16,}))"#,
        ),
        reach: PatternWindow::Line,
        judge: assigned_value,
    },
    Pattern {
        rule: ASSIGNMENT,
        words: &["pin code", "pin-code", "pin number", "pin is", "pin:", "pin lautet", "pin ist"],
        source: concat!(
            r"\b(?:[Pp]in[ -](?:code|number)|PIN)(?:\s(?:for|of|to|on)\s[^\n:=.,;|]{1,60}?)?",
            r"(?:\s{0,2}[:=]\s{0,4}|\s(?:is|ist|lautet)\s)([0-9]{4,8})\b",
        ),
        reach: PatternWindow::Line,
        judge: pin,
    },
    Pattern {
        rule: ASSIGNMENT,
        words: &["passcode "],
        source: r"\b[Pp]asscode\s([0-9]{4,8})\b",
        reach: PatternWindow::Line,
        judge: pin,
    },
    Pattern {
        rule: CARD,
        words: &["card", "visa", "amex", "karte", "tarjeta", "carte", "cart", "cvv", "cvc"],
        source: concat!(
            r"(?i)(?:card|visa|amex|karte|tarjeta|carte|cartão|cvv|cvc)[^\n0-9]{0,60}",
            r"\b([0-9]{4}(?:[ -]?[0-9]{4}){2}[ -]?[0-9]{1,7}|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})\b",
        ),
        reach: PatternWindow::Line,
        judge: card,
    },
    Pattern {
        rule: ASSIGNMENT,
        words: &["phrase", "mnemonic"],
        source: concat!(
            r"(?i)\b(?:pass-? ?phrase|(?:seed|recovery|secret|backup) phrase|mnemonic)",
            r"(?:\s(?:for|of|to)\s[^\n:=.,;|]{1,60}?)?(?:\s{0,4}(?::|=|->|→|-)\s{0,4}|\s(?:is|was)\s)",
            r#"["'`]?([a-z]{3,10}(?: [a-z]{3,10}){3,24})["'`]?\.?\s*$"#,
        ),
        reach: PatternWindow::Line,
        judge: passphrase,
    },
    Pattern {
        rule: ASSIGNMENT,
        words: &["token ", "api key ", "api-key ", "secret key "],
        source: r#"(?i)(?:^|[^\w-])(?:token|api[ -]key|secret key)\s["'`]?([A-Za-z0-9_-]{32,})(?:[^A-Za-z0-9_-]|$)"#,
        reach: PatternWindow::Line,
        judge: key_of_service,
    },
    Pattern {
        rule: ASSIGNMENT,
        words: &["private key", "private_key", "private-key", "privkey"],
        source: r"(?i)\bpriv(?:ate)?[ _-]?key\b[^\n]{0,24}?\b((?:0x)?[0-9a-f]{64})\b",
        reach: PatternWindow::Line,
        judge: key_of_service,
    },
    Pattern {
        rule: SERVICE_KEY,
        words: &[
            "datadog",
            "mistral",
            "pagerduty",
            "cohere",
            "cloudflare",
            "mailgun",
            "algolia",
            "fastly",
            "snyk",
            "okta",
            "asana",
            "opsgenie",
            "splunk",
            "ngrok",
            "zep",
            "chroma",
            "qdrant",
            "weaviate",
        ],
        source: concat!(
            r"(?i)\b(?:datadog|mistral|pagerduty|cohere|cloudflare|mailgun|algolia|fastly|snyk|okta",
            r"|asana|opsgenie|splunk|ngrok|zep|chroma|qdrant|weaviate)\b[^\n]{0,40}?",
            r"\b(?:key|token|secret|pat)\b[^\n]{0,24}?[\s:=\x22'`(]([A-Za-z0-9_-]{20,60})(?:[^A-Za-z0-9_-]|$)",
        ),
        reach: PatternWindow::Line,
        judge: key_of_service,
    },
];

const URL_CREDENTIALS: Rule =
    rule("secrets.url-credentials", "passwords in URLs, such as those of databases");
const AUTHORIZATION_HEADER: Rule =
    rule("secrets.authorization-header", "credentials in HTTP headers");
const COOKIE: Rule = rule("secrets.cookie", "cookies that hold a session or a token");
const COMMAND_LINE: Rule =
    rule("secrets.command-line", "credentials given to a command as options");
const LOGIN: Rule =
    rule("secrets.login", "a user name with its password beside it, also as in `.netrc`");
const ASSIGNMENT: Rule = rule(
    "secrets.assignment",
    "values that are said to be a password, secret, token or key and look like one, also in tables",
);
const CARD: Rule = rule(
    "secrets.card-number",
    "numbers of payment cards with a valid check digit, except test numbers",
);
const SERVICE_KEY: Rule = rule(
    "secrets.service-key",
    "keys without a prefix, on a line that names the service and says that it is a key",
);

const fn rule(id: &'static str, about: &'static str) -> Rule {
    Rule { id, family: Family::Secrets, about }
}

/// Checks whether a match is of a rule that only recognizes the context of a value.
pub(super) fn is_assignment(hit: &RuleHit) -> bool {
    PATTERNS.iter().any(|pattern| pattern.rule == hit.rule)
}

/// Checks whether the words of a pattern name a secret, and so may be the heading of a column.
pub(super) fn names_secret(pattern: &Pattern) -> bool {
    pattern.rule == ASSIGNMENT
}

/// Creates a match of a value in a table column.
pub(super) fn column_hit(range: Range<usize>) -> RuleHit {
    RuleHit { rule: ASSIGNMENT, range }
}

fn password_of_url(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(1)?;
    // A password this short is from an example: `user:pw@host`.
    let harmless =
        value.len() < 4 || is_placeholder(value) || is_reference(value, AssignmentStyle::Unquoted);
    (!harmless).then_some(range)
}

fn credential_of_header(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(3)?;
    if is_placeholder(value) || is_path(value) {
        return None;
    }
    // Base64 of a short login may have no digit, but unlike words it has capitals inside.
    let is_login = found.group(1).is_some()
        && found.group(2).is_some()
        && value.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
        && has_mixed_case(value);
    let real = is_login || (value.len() >= 12 && is_random(value));
    real.then_some(range)
}

fn value_of_cookie(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(2)?;
    let is_session = is_random(value) || (value.len() >= 20 && has_mixed_case(value));
    let real =
        !is_placeholder(value) && !is_reference(value, AssignmentStyle::Unquoted) && is_session;
    real.then_some(range)
}

fn value_of_option(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(1)?;
    let value = value.trim_end_matches([')', ']', '}', '.', ',', ';', '\\']);
    let harmless = is_placeholder(value) || is_reference(value, AssignmentStyle::Unquoted);
    let real = !harmless && value.len() >= 6 && has_digit(value) && has_letter(value);
    real.then(|| range.start..range.start + value.len())
}

/// Reports the password of a line of `.netrc`, unless the words follow each other by coincidence.
fn password_of_netrc(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(3)?;
    let is_anonymous = found.group(2).is_some_and(|(user, _)| user == "anonymous");
    let is_host = found.group(1).is_none_or(|(host, _)| host.contains(['.', ':', '-']));
    let harmless = is_placeholder(value) || is_reference(value, AssignmentStyle::Unquoted);
    let real =
        !harmless && !is_anonymous && (is_host || is_password(value, AssignmentStyle::Prose));
    real.then_some(range)
}

fn password_of_pair(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(2)?;
    let value = value.trim_end_matches([')', ']', '}', '.', ',', ';', '?', '*']);
    let harmless = is_placeholder(value)
        || is_reference(value, AssignmentStyle::Unquoted)
        || value.contains(['/', '\\']);
    (!harmless && is_generated(value)).then(|| range.start..range.start + value.len())
}

fn key_of_service(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(1)?;
    (!is_placeholder(value) && is_random(value)).then_some(range)
}

/// Card numbers that payment services publish for tests.
const TEST_CARDS: &[&str] = &[
    "4111111111111111",
    "4242424242424242",
    "4012888888881881",
    "4000056655665556",
    "5555555555554444",
    "5105105105105100",
    "5200828282828210",
    "2223003122003222",
    "378282246310005",
    "371449635398431",
    "6011111111111117",
    "30569309025904",
    "3530111333300000",
];

/// Reports a card number with a valid check digit (ISO/IEC 7812-1, Annex B), unless it is a test number.
fn card(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (number, range) = found.group(1)?;
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let doubled = u32::from(digit - b'0') << (place % 2);
            if doubled > 9 { doubled - 9 } else { doubled }
        })
        .sum();
    (sum.is_multiple_of(10) && !TEST_CARDS.contains(&digits.as_str())).then_some(range)
}

fn pin(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(1)?;
    let is_example =
        "0123456789".contains(value) || value.bytes().all(|digit| digit == value.as_bytes()[0]);
    (!is_example).then_some(range)
}

fn passphrase(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (value, range) = found.group(1)?;
    (!is_description(value)).then_some(range)
}

/// Operators that assign a value directly; other styles are words and table cells.
const ASSIGNING: &[&str] = &[":", "：", "=", "==", ":=", "=>", "->", "→"];

/// The first character of the Chinese, Japanese and Korean blocks.
const FIRST_OF_UNSPACED: char = '\u{2E80}';

fn assigned_value(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (key, key_range) = found.group(1)?;
    let (operator, _) = found.group(2)?;
    let quoted = (3..=5).find_map(|group| found.group(group));
    let (value, range, in_quotes) = if let Some((value, range)) = quoted {
        (value.trim_end_matches('\\'), range, true)
    } else {
        let (value, range) = found.group(6)?;
        // In scripts without spaces, the sentence continues directly after the value.
        let value = value.split(|letter| letter >= FIRST_OF_UNSPACED).next().unwrap_or_default();
        let end = ['.', ')', ']', '}', '*', ':', '\\', '?'];
        (value.trim_end_matches(end), range, false)
    };
    let upper_case = has_letter(key) && !key.bytes().any(|byte| byte.is_ascii_lowercase());
    let tie = match operator.trim() {
        "|" => AssignmentStyle::Cell,
        mark if !ASSIGNING.contains(&mark) => AssignmentStyle::Prose,
        _ if in_quotes => AssignmentStyle::Quoted,
        "=" if upper_case && operator == "=" => AssignmentStyle::Environment,
        _ => AssignmentStyle::Unquoted,
    };
    let is_harmless = is_placeholder(value) || is_reference(value, tie);
    // A boarding pass and the first pass of a compiler are no passwords.
    let is_ambiguous = ["pass", "clave"].contains(&&*key.to_ascii_lowercase());
    let before = found.line_before(&key_range);
    let is_key =
        !is_ambiguous || names_user(before) || (is_generated(value) && !expects_verb(before));
    let real = !is_harmless && is_plausible_secret(value, kind_of(key), tie) && is_key;
    real.then(|| range.start..range.start + value.len())
}

/// Returns the kind of secret that a key names.
fn kind_of(key: &str) -> SecretKind {
    let key = key.to_ascii_lowercase();
    let is_token =
        ["secret", "token", "key", " code", "seed"].iter().any(|word| key.ends_with(word));
    if is_token { SecretKind::Token } else { SecretKind::Password }
}

/// Checks whether a verb follows: "we pass", "to pass".
fn expects_verb(text: &str) -> bool {
    let last = text.split_whitespace().next_back().unwrap_or_default();
    let verbs = ["we", "i", "you", "they", "to", "and", "then", "must", "can", "will", "should"];
    verbs.iter().any(|word| last.eq_ignore_ascii_case(word))
}

/// Checks whether a text names the user of a login, so that a password is likely to follow.
fn names_user(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["user", "login", "mail", "account", "host", "server"].iter().any(|word| text.contains(word))
}

//! Patterns for keys and tokens that are recognized by their format.
//!
//! There is one row for each provider. The formats are those that the providers publish, slightly wider if lengths have
//! changed over time. A masked value (`xxxx…`) is only a mention and passes. There is no other exception, because such
//! an exact format does not occur by chance.

use std::ops::Range;

use super::pattern::{Pattern, PatternMatch, PatternWindow, whole_match};
use super::plausible::{is_masked, is_placeholder, is_random};
use super::{Family, Rule};

/// The patterns, in the order of the documentation.
pub(super) const PATTERNS: &[Pattern] = &[
    token(
        "secrets.aws-access-key",
        "AWS access key ids",
        &["akia", "asia", "abia", "acca"],
        r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b",
    ),
    token(
        "secrets.aws-secret-key",
        "AWS secret access keys and session tokens that are named as such",
        &[
            "secretaccesskey",
            "secret_access_key",
            "secret access key",
            "secret-access-key",
            "aws_secret",
            "session_token",
            "sessiontoken",
        ],
        r#"(?i)(?:secret[_ -]?access[_ -]?key|aws[_ -]?secret[_ -]?key|aws_secret|session_?token)[^A-Za-z0-9/+\n]{1,8}(?:is[ ])?["'`]?([A-Za-z0-9/+]{40,}={0,2})"#,
    ),
    token("secrets.gcp-api-key", "Google API keys", &["aiza"], r"\b(AIza[A-Za-z0-9_-]{35,})"),
    token(
        "secrets.gcp-oauth",
        "Google OAuth access tokens and client secrets",
        &["ya29.", "gocspx-"],
        r"\b(ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})",
    ),
    token(
        "secrets.gcp-service-account",
        "keys of Google service accounts",
        &["private_key_id"],
        r#"private_key_id\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?([0-9a-f]{40})\b"#,
    ),
    token(
        "secrets.azure-storage-key",
        "Azure storage account keys and shared access keys",
        &["accountkey", "sharedaccesskey"],
        r"(?i)\b(?:account|sharedaccess)key\s{0,2}=\s{0,2}([A-Za-z0-9+/]{42,}={1,2})",
    ),
    token(
        "secrets.azure-sas",
        "Azure shared access signatures",
        &["sig="],
        r"[?&;]sig=([A-Za-z0-9%+/]{42,}(?:=|%3[Dd])?)",
    ),
    token(
        "secrets.azure-client-secret",
        "Azure client secrets",
        &["0q~", "1q~", "2q~", "3q~", "4q~", "5q~", "6q~", "7q~", "8q~", "9q~"],
        r"\b([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})",
    ),
    token(
        "secrets.github-token",
        "GitHub tokens",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,})",
    ),
    token(
        "secrets.gitlab-token",
        "GitLab tokens",
        &[
            "glpat-",
            "gldt-",
            "glft-",
            "glrt-",
            "glrtr-",
            "glsoat-",
            "glptt-",
            "glcbt-",
            "glimt-",
            "glagent-",
            "gloas-",
            "glffct-",
            "gr1348941",
        ],
        r"\b(gl(?:pat|dt|ft|rt|rtr|soat|ptt|cbt|imt|agent|oas|ffct)-[A-Za-z0-9_.=-]{19,}[A-Za-z0-9_=-]|GR1348941[A-Za-z0-9_-]{20,})",
    ),
    token(
        "secrets.slack-token",
        "Slack tokens",
        &[
            "xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xoxc-",
            "xoxd-", "xapp-",
        ],
        r"\b(xox[abceoprsd][.-](?:xox[bp]-)?[A-Za-z0-9-]{9,}[A-Za-z0-9]|xapp-[0-9]-[A-Za-z0-9-]{9,}[A-Za-z0-9])",
    ),
    token(
        "secrets.webhook",
        "incoming webhooks of Slack, Discord and Teams",
        &["hooks.slack.com", "/api/webhooks/", "webhook.office.com"],
        r"(hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,}|discord(?:app)?\.com/api/webhooks/[0-9]{15,}/[A-Za-z0-9_-]{40,}|webhook\.office\.com/webhookb2/[A-Za-z0-9@-]{36,}/[A-Za-z]{4,}/[A-Za-z0-9]{20,}[^\s)>\x22']*)",
    ),
    token(
        "secrets.stripe-key",
        "Stripe keys, also those of test mode, and webhook secrets",
        &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_", "whsec_"],
        r"\b([sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/]{24,}={0,2})",
    ),
    token(
        "secrets.openai-key",
        "OpenAI keys, and those of services that imitate them",
        &["sk-"],
        r"\b(sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{20,})",
    ),
    token(
        "secrets.anthropic-key",
        "Anthropic keys",
        &["sk-ant-"],
        r"\b(sk-ant-[A-Za-z0-9_-]{20,})",
    ),
    token(
        "secrets.openrouter-key",
        "OpenRouter keys",
        &["sk-or-"],
        r"\b(sk-or-(?:v1-)?[A-Za-z0-9]{32,})",
    ),
    token(
        "secrets.huggingface-token",
        "Hugging Face tokens",
        &["hf_", "api_org_"],
        r"\b((?:hf|api_org)_[A-Za-z0-9]{30,})",
    ),
    token("secrets.npm-token", "npm tokens", &["npm_"], r"\b(npm_[A-Za-z0-9]{36,})"),
    token("secrets.pypi-token", "PyPI tokens", &["pypi-age"], r"\b(pypi-AgE[A-Za-z0-9_-]{40,})"),
    token(
        "secrets.sendgrid-key",
        "SendGrid keys",
        &["sg."],
        r"\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,})",
    ),
    token(
        "secrets.jwt",
        "JSON Web Tokens",
        &["eyj"],
        r"\b(ey[IJ][A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})",
    ),
    token(
        "secrets.twilio-key",
        "Twilio keys, on a line that names Twilio",
        &["twilio"],
        r"\b((?:SK|AC)[0-9a-f]{32}|[0-9a-f]{32})\b",
    ),
    token("secrets.mailgun-key", "Mailgun keys", &["key-"], r"\b(key-[0-9a-f]{32})\b"),
    token("secrets.mailchimp-key", "Mailchimp keys", &["-us"], r"\b([0-9a-f]{32}-us[0-9]{1,2})\b"),
    token(
        "secrets.digitalocean-token",
        "DigitalOcean tokens",
        &["dop_v1_", "doo_v1_", "dor_v1_"],
        r"\b(do[opr]_v1_[0-9a-f]{40,})",
    ),
    token(
        "secrets.telegram-token",
        "tokens of Telegram bots",
        &[":aa"],
        r"\b([0-9]{8,10}:AA[A-Za-z0-9_-]{32,33})",
    ),
    token(
        "secrets.discord-token",
        "tokens of Discord bots, on a line that names Discord",
        &["discord"],
        r"\b([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,})",
    ),
    token(
        "secrets.linear-key",
        "Linear keys",
        &["lin_api_", "lin_oauth_"],
        r"\b(lin_(?:api|oauth)_[A-Za-z0-9]{32,})",
    ),
    token(
        "secrets.databricks-token",
        "Databricks tokens",
        &["dapi"],
        r"\b(dapi[0-9a-f]{32}(?:-[0-9])?)\b",
    ),
    token(
        "secrets.shopify-token",
        "Shopify tokens",
        &["shpat_", "shpca_", "shppa_", "shpss_", "shptka_"],
        r"\b(shp(?:at|ca|pa|ss|tka)_[0-9A-Fa-f]{32,})",
    ),
    token(
        "secrets.vault-token",
        "HashiCorp Vault tokens",
        &["hvs.", "hvb.", "hvr."],
        r"\b(hv[sbr]\.[A-Za-z0-9_-]{24,})",
    ),
    token(
        "secrets.terraform-token",
        "Terraform Cloud tokens",
        &[".atlasv1."],
        r"\b([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,})",
    ),
    token(
        "secrets.age-key",
        "secret keys of age",
        &["age-secret-key-1"],
        r"(?i)\b(AGE-SECRET-KEY-1[0-9A-Z]{40,})",
    ),
    token(
        "secrets.doppler-token",
        "Doppler tokens",
        &["dp."],
        r"\b(dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{40,})",
    ),
    token("secrets.groq-key", "Groq keys", &["gsk_"], r"\b(gsk_[A-Za-z0-9]{40,})"),
    token("secrets.xai-key", "xAI keys", &["xai-"], r"\b(xai-[A-Za-z0-9]{60,})"),
    token("secrets.perplexity-key", "Perplexity keys", &["pplx-"], r"\b(pplx-[A-Za-z0-9]{40,})"),
    token("secrets.replicate-token", "Replicate tokens", &["r8_"], r"\b(r8_[A-Za-z0-9]{37,})"),
    token(
        "secrets.langsmith-key",
        "LangSmith keys",
        &["lsv2_"],
        r"\b(lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10})\b",
    ),
    token(
        "secrets.tavily-key",
        "Tavily keys",
        &["tvly-"],
        r"\b(tvly-(?:dev-|prod-)?[A-Za-z0-9]{28,})",
    ),
    token(
        "secrets.notion-token",
        "Notion tokens",
        &["ntn_", "secret_"],
        r"\b(ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})\b",
    ),
    token(
        "secrets.postman-key",
        "Postman keys",
        &["pmak-"],
        r"\b(PMAK-[0-9a-f]{24}-[0-9a-f]{34})\b",
    ),
    token(
        "secrets.fly-token",
        "Fly.io tokens",
        &["fm1r_", "fm1a_", "fm2_", "fo1_"],
        r"\b((?:fm1[ar]|fm2)_[A-Za-z0-9+/=,_-]{40,}|fo1_[A-Za-z0-9_-]{43})",
    ),
    token(
        "secrets.supabase-key",
        "Supabase tokens and secret keys",
        &["sbp_", "sb_secret_"],
        r"\b(sbp_[0-9a-f]{40,}|sb_secret_[A-Za-z0-9_-]{20,})",
    ),
    token(
        "secrets.grafana-token",
        "Grafana tokens",
        &["glsa_", "glc_eyj"],
        r"\b(glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}|glc_eyJ[A-Za-z0-9+/=_-]{30,})",
    ),
    token(
        "secrets.sentry-token",
        "Sentry tokens",
        &["sntrys_", "sntryu_", "sntrya_", "sntryi_"],
        r"\b(sntrys_eyJ[A-Za-z0-9+/=_-]{30,}|sntry[uai]_[0-9a-f]{60,})",
    ),
    token(
        "secrets.planetscale-token",
        "PlanetScale tokens and passwords",
        &["pscale_"],
        r"\b(pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,})",
    ),
    token(
        "secrets.docker-token",
        "Docker tokens",
        &["dckr_pat_", "dckr_oat_"],
        r"\b(dckr_[po]at_[A-Za-z0-9_-]{24,})",
    ),
    token(
        "secrets.atlassian-token",
        "Atlassian and Bitbucket tokens",
        &["atatt3", "atctt3", "atbb"],
        r"\b(AT[AC]TT3[A-Za-z0-9_=-]{60,}|ATBB[A-Za-z0-9]{28,})",
    ),
    token(
        "secrets.square-token",
        "Square tokens",
        &["sq0atp-", "sq0csp-", "eaaa"],
        r"\b(sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60})\b",
    ),
    token("secrets.heroku-key", "Heroku keys", &["hrku-"], r"\b(HRKU-[A-Za-z0-9_-]{36,})"),
    token("secrets.figma-token", "Figma tokens", &["figd_"], r"\b(figd_[A-Za-z0-9_-]{40,})"),
    token(
        "secrets.netlify-token",
        "Netlify tokens",
        &["nfp_", "nfc_", "nfo_", "nfu_", "nfb_"],
        r"\b(nf[pcoub]_[A-Za-z0-9]{36,})",
    ),
    token("secrets.pulumi-token", "Pulumi tokens", &["pul-"], r"\b(pul-[0-9a-f]{40})\b"),
    token("secrets.rubygems-key", "RubyGems keys", &["rubygems_"], r"\b(rubygems_[0-9a-f]{48})\b"),
    token("secrets.crates-io-token", "crates.io tokens", &["cio"], r"\b(cio[A-Za-z0-9]{32})\b"),
    token(
        "secrets.tailscale-key",
        "Tailscale keys",
        &["tskey-"],
        r"\b(tskey-[a-z]{3,10}-[A-Za-z0-9]{8,}(?:-[A-Za-z0-9]{8,})?)",
    ),
    token(
        "secrets.onepassword-token",
        "1Password service account tokens and secret keys",
        &["ops_eyj", "a3-"],
        r"\b(ops_eyJ[A-Za-z0-9+/=_-]{60,}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3})\b",
    ),
    token(
        "secrets.artifactory-key",
        "Artifactory keys and reference tokens",
        &["akcp", "cmvmd"],
        r"\b(AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{59})\b",
    ),
    token(
        "secrets.newrelic-key",
        "New Relic keys",
        &["nrak-", "nrii-", "nrra-"],
        r"\b(NRAK-[A-Z0-9]{27}|NRII-[A-Za-z0-9_-]{32}|NRRA-[0-9a-f]{42})",
    ),
    token(
        "secrets.dynatrace-token",
        "Dynatrace tokens",
        &["dt0c01.", "dt0s16."],
        r"\b(dt0[cs][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64})\b",
    ),
    token("secrets.elevenlabs-key", "ElevenLabs keys", &["sk_"], r"\b(sk_[0-9a-f]{48})\b"),
    token("secrets.clojars-token", "Clojars tokens", &["clojars_"], r"\b(CLOJARS_[0-9a-f]{60})\b"),
    token("secrets.buildkite-token", "Buildkite tokens", &["bkua_"], r"\b(bkua_[0-9a-f]{40})\b"),
    token(
        "secrets.cloudflare-token",
        "Cloudflare origin keys",
        &["v1.0-"],
        r"\b(v1\.0-[0-9a-f]{24}-[0-9a-f]{146})\b",
    ),
    Pattern {
        rule: rule("secrets.private-key", "private keys in PEM, PGP and PuTTY form"),
        words: &["-----begin"],
        source: concat!(
            r"-----BEGIN[ A-Z0-9_-]{0,40}PRIVATE KEY(?: BLOCK)?-----",
            r#"(?:(?:[\s>|#*"'+,;]|\\[nrt]){0,12}"#,
            r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ?[^\n\\]{0,120}){0,6}",
            r#"(?:(?:(?:[\s>|#*"'+,;]|\\[nrt]){0,12}[A-Za-z0-9+/=]{16,})+"#,
            r#"(?:(?:(?:[\s>|#*"'+,;]|\\[nrt]){0,12}[A-Za-z0-9+/=]{1,80}){0,2}"#,
            r#"(?:[\s>|#*"'+,;]|\\[nrt]){0,12}-----END[ A-Z0-9_-]{0,60}-----)?"#,
            r#"|(?:[\s>|#*"'+,;]|\\[nrt]){0,12}([A-Za-z0-9+/=]{4,})"#,
            r#"(?:[\s>|#*"'+,;]|\\[nrt]){0,12}-----END[ A-Z0-9_-]{0,60}-----)"#,
        ),
        reach: PatternWindow::ToEnd,
        judge: private_key,
    },
    Pattern {
        rule: rule("secrets.private-key", "private keys in PEM, PGP and PuTTY form"),
        words: &["private-lines:"],
        source: r"Private-Lines: [0-9]+\s+(?:[A-Za-z0-9+/=]{16,}\s*)+",
        reach: PatternWindow::ToEnd,
        judge: whole_match,
    },
];

const fn rule(id: &'static str, about: &'static str) -> Rule {
    Rule { id, family: Family::Secrets, about }
}

/// A pattern for a token that is recognized by its format alone.
pub(super) const fn token(
    id: &'static str,
    about: &'static str,
    words: &'static [&'static str],
    source: &'static str,
) -> Pattern {
    Pattern {
        rule: rule(id, about),
        words,
        source,
        reach: PatternWindow::Line,
        judge: unless_masked,
    }
}

/// A pattern for a token with a short prefix, with which a long name could begin as well.
pub(super) const fn random_token(
    id: &'static str,
    about: &'static str,
    words: &'static [&'static str],
    source: &'static str,
) -> Pattern {
    Pattern {
        rule: rule(id, about),
        words,
        source,
        reach: PatternWindow::Line,
        judge: unless_wordy,
    }
}

/// Reports the token, unless it is masked.
fn unless_masked(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (token, range) = found.group(1)?;
    (!is_masked(token)).then_some(range)
}

/// Reports the token, unless it consists of words.
fn unless_wordy(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let (token, _) = found.group(1)?;
    is_random(token).then(|| unless_masked(found)).flatten()
}

/// Reports the key, unless it is a placeholder such as `REDACTED`.
fn private_key(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    let stand_in = found.group(1).is_some_and(|(body, _)| is_placeholder(body));
    (!stand_in).then(|| whole_match(found)).flatten()
}

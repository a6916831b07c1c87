//! Secrets: formats of providers, assignments, logins; and mere mentions, which pass.

use super::*;

const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Asserts that a token is found in prose, in code, after another script and at the edge of a text.
pub(super) fn refuses_token(token: &str, rule: &str) {
    refuses(token, rule);
    refuses(&format!("- Use `{token}` for the mirror, it is valid for a year"), rule);
    refuses(&format!("使用{token}。"), rule);
    refuses(&format!("a\r\nx\t{token},\n"), rule);
}

#[test]
fn tokens_of_providers_are_refused() {
    let check =
        |rule: &str, prefix: &str, rest: &str| refuses_token(&format!("{prefix}{rest}"), rule);
    let a = alphanumeric;
    let (upper, digits) = (a(16).to_uppercase(), noise("0123456789", 12));
    check("secrets.aws-access-key", "AKIA", &upper);
    check("secrets.aws-access-key", "ASIA", &upper);
    check("secrets.gcp-api-key", "AIza", &a(35));
    check("secrets.gcp-oauth", "ya29.", &a(60));
    check("secrets.gcp-oauth", "GOCSPX-", &a(28));
    check("secrets.azure-client-secret", "a1b8Q~", &a(34));
    for prefix in ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"] {
        check("secrets.github-token", prefix, &a(36));
    }
    check("secrets.github-token", "github_pat_", &format!("{}_{}", a(22), a(59)));
    check("secrets.gitlab-token", "glpat-", &a(20));
    check("secrets.gitlab-token", "gldt-", &a(20));
    check("secrets.slack-token", "xoxb-", &format!("{digits}-{}", a(24)));
    check("secrets.slack-token", "xapp-1-", &format!("A0{digits}-{}", a(24)));
    check("secrets.stripe-key", "sk_live_", &a(24));
    check("secrets.stripe-key", "rk_test_", &a(24));
    check("secrets.stripe-key", "whsec_", &a(32));
    check("secrets.openai-key", "sk-", &a(48));
    check("secrets.openai-key", "sk-proj-", &format!("{}-{}_{}", a(20), a(30), a(40)));
    check("secrets.anthropic-key", "sk-ant-api03-", &format!("{}-{}AA", a(40), a(50)));
    check("secrets.openrouter-key", "sk-or-v1-", &hex(64));
    check("secrets.huggingface-token", "hf_", &a(34));
    check("secrets.npm-token", "npm_", &a(36));
    check("secrets.pypi-token", "pypi-AgE", &a(80));
    check("secrets.sendgrid-key", "SG.", &format!("{}.{}", a(22), a(43)));
    check("secrets.jwt", "eyJ", &format!("{}.eyJ{}.{}", a(33), a(40), a(43)));
    check("secrets.mailgun-key", "key-", &hex(32));
    check("secrets.mailchimp-key", &hex(32), "-us14");
    check("secrets.digitalocean-token", "dop_v1_", &hex(64));
    check("secrets.telegram-token", "712345678:AA", &a(33));
    check("secrets.linear-key", "lin_api_", &a(40));
    check("secrets.databricks-token", "dapi", &hex(32));
    check("secrets.shopify-token", "shpat_", &hex(32));
    check("secrets.vault-token", "hvs.", &a(90));
    check("secrets.terraform-token", &a(14), &format!(".atlasv1.{}", a(67)));
    check("secrets.age-key", "AGE-SECRET-KEY-1", &a(58).to_uppercase());
    check("secrets.doppler-token", "dp.pt.", &a(43));
    check("secrets.groq-key", "gsk_", &a(52));
    check("secrets.xai-key", "xai-", &a(80));
    check("secrets.perplexity-key", "pplx-", &a(48));
    check("secrets.replicate-token", "r8_", &a(37));
    check("secrets.langsmith-key", "lsv2_pt_", &format!("{}_{}", hex(32), hex(10)));
    check("secrets.notion-token", "ntn_", &a(46));
    check("secrets.postman-key", "PMAK-", &format!("{}-{}", hex(24), hex(34)));
    check("secrets.supabase-key", "sbp_", &hex(40));
    check("secrets.grafana-token", "glsa_", &format!("{}_{}", a(32), hex(8)));
    check("secrets.sentry-token", "sntryu_", &hex(64));
    check("secrets.planetscale-token", "pscale_tkn_", &a(43));
    check("secrets.docker-token", "dckr_pat_", &a(27));
    check("secrets.atlassian-token", "ATATT3", &a(180));
    check("secrets.figma-token", "figd_", &a(40));
    check("secrets.netlify-token", "nfp_", &a(36));
    check("secrets.pulumi-token", "pul-", &hex(40));
    check("secrets.rubygems-key", "rubygems_", &hex(48));
    check("secrets.crates-io-token", "cio", &a(32));
    check("secrets.tailscale-key", "tskey-auth-", &format!("{}-{}", a(12), a(32)));
    check("secrets.newrelic-key", "NRAK-", &a(27).to_uppercase());
    check("secrets.elevenlabs-key", "sk_", &hex(48));
}

#[test]
fn a_token_that_is_one_letter_short_passes() {
    passes(&format!("AKIA{}", "A1".repeat(8).split_at(15).0));
    passes(&format!("ghp_{}", alphanumeric(35)));
    passes(&format!("glpat-{}", alphanumeric(19)));
    passes(&format!("AIza{}", alphanumeric(34)));
    passes(&format!("npm_{}", alphanumeric(35)));
    passes(&format!("dapi{}", hex(31)));
}

#[test]
fn tokens_that_need_their_context_are_refused() {
    let a = alphanumeric;
    let base64 = |length| noise(BASE64, length);
    let aws = base64(40);
    refuses(&format!("aws_secret_access_key = {aws}"), "secrets.aws-secret-key");
    refuses(&format!("\"SecretAccessKey\": \"{aws}\""), "secrets.aws-secret-key");
    refuses(
        &format!("DefaultEndpointsProtocol=https;AccountName=pod;AccountKey={}==", base64(86)),
        "secrets.azure-storage-key",
    );
    refuses(
        &format!("https://pod.blob.example/x?sv=2024-01-01&se=2027&sig={}%3D", a(43)),
        "secrets.azure-sas",
    );
    refuses(
        &format!("https://hooks.slack.com/services/T{}/B{}/{}", &a(8), &a(8), a(24)),
        "secrets.webhook",
    );
    refuses(
        &format!("https://discord.com/api/webhooks/{}/{}", "123456789".repeat(2), a(68)),
        "secrets.webhook",
    );
    refuses(&format!("discord bot M{}.{}.{}", a(25), a(6), a(38)), "secrets.discord-token");
    refuses(&format!("Twilio auth {}", hex(32)), "secrets.twilio-key");
    refuses(&format!("\"private_key_id\": \"{}\"", hex(40)), "secrets.gcp-service-account");
}

#[test]
fn private_keys_are_refused() {
    let refuses = |text: &str| refuses(text, "secrets.private-key");
    let line = noise(BASE64, 64);
    for kind in ["", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "] {
        let (begin, end) = (
            format!("-----BEGIN {kind}PRIVATE KEY-----"),
            format!("-----END {kind}PRIVATE KEY-----"),
        );
        refuses(&format!("```\n{begin}\n{line}\n{line}\nAbc=\n{end}\n```"));
        refuses(&format!("\"private_key\": \"{begin}\\n{line}\\n{line}\\n{end}\\n\""));
        refuses(&format!("> {begin}\n> {line}\n> {line}\n"));
        refuses(&format!("{begin} {line} {end}"));
        refuses(&format!("{begin}\r\nMIIEow\r\n{end}"));
    }
    refuses(&format!(
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{line}\n"
    ));
    refuses(&format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 2\n\n{line}\n"));
    refuses(&format!("PuTTY-User-Key-File-3: x\nPrivate-Lines: 1\n{line}\n"));
}

#[test]
fn the_whole_of_a_private_key_is_one_finding() {
    let line = noise(BASE64, 64);
    let key =
        format!("-----BEGIN PRIVATE KEY-----\n{line}\n{line}\nAbc=\n-----END PRIVATE KEY-----");
    let text = format!("before\n{key}\nafter");
    let found = Screen::default().check(&text, TextAuthor::Agent);
    assert_eq!(found.iter().map(|finding| found_in(&text, finding)).collect::<Vec<_>>(), [key]);
}

#[test]
fn credentials_in_urls_headers_and_commands_are_refused() {
    let url = "secrets.url-credentials";
    refuses("postgres://kiln:cl4y-Oven@db.kiln.example:5432/kiln", url);
    refuses("redis://:f1reHose@cache.example:6379/0", url);
    refuses("mongodb+srv://app:Qx%409vv@cluster.example/?w=majority", url);
    refuses("Clone with https://ines:hunter2@git.example/kiln.git please", url);
    refuses("amqp://worker:brandmauer@mq.example", url);
    let token = alphanumeric(40);
    let header = "secrets.authorization-header";
    refuses(&format!("Authorization: Bearer {token}"), header);
    refuses(&format!("-H 'authorization: Basic {}=='", noise(BASE64, 30)), header);
    refuses(&format!("send bearer {token} along"), header);
    let command = "secrets.command-line";
    refuses("curl -u ines:kl4yOven https://kiln.example/api", command);
    refuses("deploy --password kl4yOven --force", command);
    refuses(&format!("vault login --token {token}"), command);
    refuses("mysql -u root -pkl4yOven shop", command);
    refuses("sshpass -p kl4yOven ssh kiln.example", command);
}

#[test]
fn values_with_a_secret_key_are_refused() {
    all_break(
        "secrets.assignment",
        &[
            "admin_password = \"W1nter-Garten-42\"",
            "password: hunter2",
            "password=\"swordfish\"",
            "Password: Regen-Bogen-2025",
            "DB_PASSWORD=swordfish",
            "export DB_PASSWORD=kl4yOven!",
            "db.password := 'kl4yOven'",
            "'passwd' => 'kl4yOven'",
            "{\"password\": \"kl4yOven\"}",
            "{\\\"password\\\": \\\"kl4yOven\\\"}",
            "pwd: 20250817",
            "passphrase = \"violet kiln seven harbours\"",
            "client_secret: 9f86d081884c7d65",
            "clientSecret: '9f86d081-884c-7d65-9a2f'",
            "api_key = 'b7Tq09ZkLm3x'",
            "API-Key: b7Tq09ZkLm3x",
            "x-api-key: b7Tq09ZkLm3x",
            "auth token: b7Tq09ZkLm3x",
            "//registry.example/:_authToken=b7Tq09ZkLm3x",
            "SECRET_KEY='b7Tq09ZkLm3x'",
            "The wifi password is kl4yOven-9x",
            "password for the printer is k1ln0ven",
            "The pre-shared key is 9sKiln77Qz!",
            "The password for the kiln box is `kl4yOven-9x`.",
            "api key for staging: b7Tq09ZkLm3x",
            "| admin password | kl4yOven-9x |",
            "**Password**: kl4yOven9",
            "`password`: `kl4yOven9`",
            "Passwort: kl4yOven9",
            "Mot de passe : kl4yOven9",
            "contraseña: kl4yOven9",
            "пароль: kl4yOven9",
            "密码：kl4yOven9",
            "密码是kl4yOven9x",
            "Server=db;User Id=sa;Password=kl4yOven9;",
        ],
    );
}

#[test]
fn mentions_of_secrets_pass() {
    all_pass(&[
        "The deploy key is ~/.ssh/id_ed25519, the rest is in `.env`.",
        "Never commit `.env` or `credentials.json`.",
        "Rotate the API key every 90 days: open the console, press Rotate, update the vault.",
        "The login form sends `password` and `otp`; the session token expires after 15 minutes.",
        "Signing keys live in 1Password, vault 'Kiln', item 'notary'.",
        "token: stored in vault",
        "password: see 1Password",
        "password: ask Pavel",
        "Password: required, at least 12 characters",
        "The password is base64-encoded before it is sent.",
        "The token is OAuth2.0 only.",
        "password_hash = argon2id",
        "password: argon2id",
        "password: sha256-hashed",
        "password = getPassword()",
        "password = os.environ['DB_PASSWORD']",
        "password = config.db.password2",
        "const token = await login(user, 2);",
        "token = request.headers[\"x-token\"]",
        "token: string;",
        "DB_PASSWORD=$DB_PASSWORD",
        "DB_PASSWORD=${DB_PASSWORD:-postgres}",
        "DB_PASSWORD=postgres",
        "DB_PASSWORD=changeme",
        "DB_PASSWORD=<password>",
        "DB_PASSWORD=your-password-here",
        "password: \"********\"",
        "password: xxxxxxxx",
        "password: \"...\"",
        "api_key = OPENAI_API_KEY",
        "api_key: \"{{ vault_api_key_2 }}\"",
        "api_key: op://Kiln/notary2/credential",
        "token: ${{ secrets.GITHUB_TOKEN }}",
        "secret: kv/data/prod2/api",
        "secretName: kiln-tls-2",
        "secret: kiln-tls-2",
        "max_tokens: 4096",
        "token: 15 minutes",
        "tokenizer: cl100k_base",
        "token_endpoint: https://login.example/oauth2/v2.0/token",
        "key: value",
        "primary key: tenant_id2",
        "\"password\": \"string\"",
        "\"password\": \"The password of the user, at least 12 characters\"",
        "The keyboard shortcut is Ctrl+K Ctrl+S.",
        "sort key = created_at2",
    ]);
}

#[test]
fn logins_without_a_real_password_pass() {
    all_pass(&[
        "Tokens: [#12](https://git.example/pull/12345) secret for x: https://git.example/pull/12345",
        "redis://a:b@c",
        "postgres://kiln@db.kiln.example/kiln",
        "postgres://kiln:<password>@db.kiln.example/kiln",
        "postgres://kiln:$PASS@db.kiln.example/kiln",
        "postgres://kiln:${PG_PASS}@db.kiln.example/kiln",
        "postgres://kiln:***@db.kiln.example/kiln",
        "postgres://kiln:xxx@db.kiln.example/kiln",
        "postgres://user:password@localhost:5432/app",
        "postgres://postgres:postgres@localhost:5432/app",
        "https://kiln.example:8443/a@b",
        "See http://localhost:3000/@fs/src and mail ines@kiln.example",
        "ssh://git@kiln.example:22/x.git",
        "curl -H \"Authorization: Bearer $TOKEN\" https://kiln.example",
        "Authorization: Bearer <token>",
        "Bearer authentication-required-here",
        "curl -u ines:$PASS https://kiln.example",
        "docker login --password-stdin",
        "deploy --token $TOKEN",
        "mysql -u root -p shop",
        "mkdir -p build2/output3",
        "Slack tokens begin with xoxb- and GitHub's with ghp_.",
        "Use a key such as sk-ant-... or sk-proj-…",
        "The desk-booking and risk-assessment tasks use task-2025-planning-board.",
        "Header of the file: `-----BEGIN OPENSSH PRIVATE KEY-----`",
        "-----BEGIN PRIVATE KEY-----\nREDACTED\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQ\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQ\n-----END PUBLIC KEY-----",
        "A JWT has three parts: eyJ….eyJ….signature",
        "パスワードは1Passwordにあります",
        "Das Passwort ist im Tresor, Fach 3b.",
        "Le mot de passe est dans le coffre 12.",
    ]);
}

#[test]
fn hashes_ids_and_encoded_data_pass() {
    passes(&format!("Fixed in {}", hex(40)));
    passes(&format!("sha256:{}", hex(64)));
    passes("request 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed");
    passes(&format!("![logo](data:image/png;base64,{}==)", noise(BASE64, 400)));
    passes(&format!("integrity sha512-{}==", noise(BASE64, 86)));
    passes("arn:aws:iam::123456789012:role/kiln-deploy");
    passes("01ARZ3NDEKTSV4RRFFQ69G5FAV");
}

#[test]
fn masked_tokens_pass() {
    passes(&format!("ghp_{}", "x".repeat(36)));
    passes(&format!("AKIA{}", "X".repeat(16)));
    passes(&format!("https://hooks.slack.com/services/T00000000/B00000000/{}", "X".repeat(24)));
}

#[test]
fn disguised_tokens_are_refused() {
    let has_token = |text: &str| {
        let rules = broken_rules(text);
        assert!(rules.contains(&"secrets.github-token"), "{rules:?} {text:?}");
    };
    let token = github();
    let (head, tail) = token.split_at(9);
    for invisible in ["\u{200B}", "\u{AD}", "\u{2060}\u{FEFF}", "\u{E0041}", "\u{FE0F}"] {
        has_token(&format!("token {head}{invisible}{tail}"));
        has_token(&format!("token{invisible}{token}"));
    }
    let wide: String =
        token.chars().map(|letter| char::from_u32(u32::from(letter) + 0xFEE0).unwrap()).collect();
    has_token(&wide);
    has_token(&token.replacen('p', "р", 1));
}

#[test]
fn a_disguised_token_is_found_at_its_position() {
    let token = github();
    let (head, tail) = token.split_at(9);
    let text = format!("Größe\u{200B}é\nx {head}\u{200B}{tail} y");
    let found = Screen::default().check(&text, TextAuthor::Agent);
    let token = found.iter().find(|finding| finding.family == Family::Secrets).unwrap();
    assert_eq!((token.line, found_in(&text, token)), (2, &*format!("{head}\u{200B}{tail}")));
}

//! Tokens of an identity provider: whom they lead to, what they allow, and each way in which one is wrong.

use memory::clock::Clock as _;
use memory::document::Revision;
use serde_json::{Map, Value, json};
use store::clock::SystemClock;
use testkit::postgres::PostgresVersion;
use testkit::{
    DocumentReply, IdentityServer, ProviderKeyPair, SigningAlgorithm, TlsProxy, eventually,
    token_with_secret, unsigned_token,
};

use super::Database;
use super::owners::TokenCaller;
use crate::daemon::{Daemon, HttpResponse};
use crate::sandbox::Sandbox;

/// The memory that these tests read and write.
const PATH: &str = "/v1/memories/global/own.md";
/// The audience of the daemons.
const AUDIENCE: &str = "lukasa-daemons";

/// A provider with one key.
struct Provider {
    server: IdentityServer,
    key: ProviderKeyPair,
}

fn new_key(id: &str) -> ProviderKeyPair {
    ProviderKeyPair::generate(id, SigningAlgorithm::Es256).unwrap()
}

impl Provider {
    fn start() -> Self {
        let key = new_key("first");
        Self { server: IdentityServer::start(&[&key]).unwrap(), key }
    }

    /// Starts a daemon that accepts tokens of this provider.
    fn daemon(&self, database: &Database, place: &Sandbox, args: &[&str]) -> Daemon {
        daemon_for(&self.server.issuer(), database, place, args)
    }

    /// Returns valid claims, with these in place of some; `null` leaves one out.
    fn claims(&self, changed: &Value) -> Value {
        let now = SystemClock.now().as_second();
        let mut claims: Map<_, _> = serde_json::from_value(json!({
            "iss": self.server.issuer(), "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 600,
        }))
        .unwrap();
        claims.extend(changed.as_object().unwrap().clone());
        claims.retain(|_, value| !value.is_null());
        Value::Object(claims)
    }

    fn token(&self, changed: &Value) -> String {
        self.key.token(&self.claims(changed)).unwrap()
    }
}

fn daemon_for(issuer: &str, database: &Database, place: &Sandbox, args: &[&str]) -> Daemon {
    let options = ["--oidc-issuer", issuer, "--oidc-audience", AUDIENCE];
    Daemon::start_by(database.command(place, &[&options, args].concat()))
}

fn get(daemon: &Daemon, token: &str) -> HttpResponse {
    TokenCaller { daemon, token }.get(PATH)
}

/// Waits until a token has this status.
fn wait_for_status(daemon: &Daemon, token: &str, status: u16) {
    eventually(|| match get(daemon, token).status {
        same if same == status => Ok(()),
        other => Err(other),
    });
}

#[test]
fn a_token_of_a_provider_leads_to_an_owner_of_its_own() {
    let (database, provider) = (Database::start(PostgresVersion::Newest), Provider::start());
    let places = [Sandbox::new(), Sandbox::new()];
    let daemon = provider.daemon(&database, &places[0], &[]);
    // The second one has its options from the environment.
    let mut command = database.command(&places[1], &[]);
    let issuer = provider.server.issuer();
    command.env("LUKASA_OIDC_ISSUER", issuer).env("LUKASA_OIDC_AUDIENCE", AUDIENCE);
    let other = Daemon::start_by(command);
    let created = database.new_token(&places[0], "ann", "admin");
    let subjects = ["ann", "ben", " Ann\n", "default"];
    let tokens = subjects.map(|subject| provider.token(&json!({ "sub": subject })));
    let [ann, ben, strange, operator] =
        tokens.each_ref().map(|token| TokenCaller { daemon: &daemon, token });

    assert_eq!(ann.put(PATH, "Of Ann.\n").status, 201);
    for foreign in [ben, strange, operator, TokenCaller { daemon: &daemon, token: &created }] {
        assert_eq!(foreign.get(PATH).status, 404);
        let listed = foreign.get("/v1/memories").text();
        assert!(!listed.contains("own.md"), "{listed}");
    }
    assert_eq!(daemon.get(PATH).status, 404, "the operator's owner has none");
    for (caller, text) in [(ben, "Of Ben.\n"), (strange, "Of another Ann.\n")] {
        assert_eq!(caller.put(PATH, text).status, 201);
        assert_eq!(caller.get(PATH).json()["text"], text);
    }
    // A later token of the same subject, at another daemon, for several audiences.
    let later = provider.token(&json!({ "aud": ["other", AUDIENCE], "nbf": 1, "jti": "2" }));
    assert_eq!(get(&other, &later).json()["text"], "Of Ann.\n");

    let digest = [&provider.server.issuer(), "sub", "ann"].join("\0");
    let owner = format!("oidc:{}", Revision::digest(digest.as_bytes()));
    let metrics = daemon.get("/metrics").text();
    let line = format!("lukasa_owner_memories{{owner=\"{owner}\"}} 1");
    assert!(metrics.contains(&line), "{line}: {metrics}");
    let mut command = places[0].lukasa(&["token", "create", "--owner", &owner]);
    let refused = places[0].run_command(command.env("LUKASA_DATABASE", &database.address));
    assert_eq!(refused.status, 2, "{}", refused.shown());
    assert!(refused.stderr.contains("`oidc:`"), "{}", refused.shown());
}

#[test]
fn a_role_claim_allows_what_a_token_of_that_role_does() {
    let (database, provider) = (Database::start(PostgresVersion::Debian), Provider::start());
    let place = Sandbox::new();
    let daemon = provider.daemon(&database, &place, &["--oidc-role-claim", "roles"]);
    let tokens = [json!("read"), json!(["read", "write"]), json!(["admin", "x"])]
        .map(|roles| provider.token(&json!({ "roles": roles })));
    let [read, write, admin] =
        tokens.each_ref().map(|token| TokenCaller { daemon: &daemon, token });
    assert_eq!(write.put(PATH, "The text.\n").status, 201);
    for caller in [read, write, admin] {
        assert_eq!(caller.get(PATH).json()["text"], "The text.\n");
        for path in ["/metrics", "/v1/settings", "/v1/trust"] {
            assert_eq!(caller.get(path).json()["requiredRole"], "operator", "{path}");
        }
    }
    assert_eq!(read.put(PATH, "x\n").json()["requiredRole"], "write");
    let create =
        json!({ "command": "create", "path": "/memories/global/new.md", "file_text": "x" });
    assert_eq!(read.post("/v1/tool", &create).json()["code"], "read_only");
    assert_eq!(write.get("/v1/tokens").json()["requiredRole"], "admin");
    let made = admin.post("/v1/tokens", &json!({ "role": "read" })).json();
    let made = TokenCaller { daemon: &daemon, token: made["token"].as_str().unwrap() };
    assert_eq!(made.get(PATH).json()["text"], "The text.\n", "it is of the same owner");
    for roles in [json!(null), json!([]), json!("owner"), json!(["Admin"]), json!({ "admin": 1 })] {
        let token = provider.token(&json!({ "roles": roles }));
        assert_eq!(get(&daemon, &token).status, 401, "{roles}");
    }
}

/// Returns tokens that are wrong in one way each, with a part of the reason in the log.
fn wrong_tokens(provider: &Provider) -> Vec<(&'static str, String)> {
    let now = SystemClock.now().as_second();
    let (key, claims) = (&provider.key, provider.claims(&json!({})));
    let with_header = |fields: Value| {
        let mut header = key.header();
        header.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        key.token_with_header(&header, &claims).unwrap()
    };
    let good = key.token(&claims).unwrap();
    let (message, signature) = good.rsplit_once('.').unwrap();
    let foreign = provider.claims(&json!({ "sub": "ben" }));
    let changed = format!("{}.{signature}", unsigned_token(&key.header(), &foreign));
    let unsigned = unsigned_token(&json!({ "alg": "none" }), &claims);
    let secret_header = json!({ "alg": "HS256", "kid": "first" });
    vec![
        ("expired", provider.token(&json!({ "exp": now - 120 }))),
        ("`exp`", provider.token(&json!({ "exp": null }))),
        ("not valid yet", provider.token(&json!({ "nbf": now + 120 }))),
        ("another issuer", provider.token(&json!({ "iss": "https://login.example" }))),
        ("another audience", provider.token(&json!({ "aud": "other" }))),
        ("names the owner", provider.token(&json!({ "sub": null }))),
        ("signature", new_key("first").token(&claims).unwrap()),
        ("signature", changed),
        ("algorithm", format!("{unsigned}.")),
        ("algorithm", format!("{unsigned}.{signature}")),
        ("algorithm", token_with_secret(&secret_header, &claims, key.public_bytes())),
        ("not for its algorithm", with_header(json!({ "alg": "RS256" }))),
        ("critical", with_header(json!({ "crit": ["exp"] }))),
        ("the type of the token", with_header(json!({ "typ": "logout+jwt" }))),
        ("no key with the id", new_key("unknown").token(&claims).unwrap()),
        ("signature", format!("{message}.{}", signature.get(8..).unwrap())),
        ("not a signed JWT", format!("{good}=")),
        ("too large", provider.token(&json!({ "padding": "x".repeat(8_192) }))),
    ]
}

#[test]
fn a_wrong_token_is_refused_without_a_reason_and_the_log_has_the_reason_without_the_token() {
    let (database, provider) = (Database::start(PostgresVersion::Debian), Provider::start());
    let place = Sandbox::new();
    let daemon = provider.daemon(&database, &place, &["--verbose", "--verbose"]);
    let good = provider.token(&json!({}));
    assert_eq!(get(&daemon, &good).status, 404);
    let unknown = get(&daemon, "lukasa_0");
    assert_eq!(unknown.status, 401);
    let wrong = wrong_tokens(&provider);
    for (reason, token) in &wrong {
        let refused = get(&daemon, token);
        assert_eq!(refused.status, 401, "{reason}: {}", refused.text());
        assert_eq!(refused.text(), unknown.text(), "{reason}");
        assert_eq!(refused.header("WWW-Authenticate"), Some("Bearer"), "{reason}");
    }
    for token in ["a.b.c", "..", &"x.".repeat(3_000), &format!("{good}.{good}"), "x"] {
        assert_eq!(get(&daemon, token).status, 401, "{token}");
    }
    assert_eq!(get(&daemon, &good).status, 404);
    let log = daemon.log();
    for (reason, token) in &wrong {
        assert!(log.contains(reason), "{reason}: {log}");
        for part in token.split('.').filter(|part| !part.is_empty()) {
            assert!(!log.contains(part), "{reason}: {part}");
        }
    }
}

#[test]
fn new_keys_are_accepted_and_withdrawn_ones_are_not() {
    let (database, provider) = (Database::start(PostgresVersion::Debian), Provider::start());
    let place = Sandbox::new();
    let daemon = provider.daemon(&database, &place, &[]);
    let (old, second) = (provider.token(&json!({})), new_key("second"));
    let new = second.token(&provider.claims(&json!({}))).unwrap();
    assert_eq!(get(&daemon, &old).status, 404);
    provider.server.publish(&[&provider.key, &second]);
    wait_for_status(&daemon, &new, 404);
    assert_eq!(get(&daemon, &old).status, 404);
    let begun = std::time::Instant::now();
    let before = provider.server.fetches();
    for number in 0..30 {
        let invented = new_key(&format!("invented-{number}"));
        let token = invented.token(&provider.claims(&json!({}))).unwrap();
        assert_eq!(get(&daemon, &token).status, 401);
    }
    let fetches = provider.server.fetches() - before;
    assert!(
        fetches as u64 <= begun.elapsed().as_secs() / 5 + 1,
        "{fetches}: {:?}",
        begun.elapsed()
    );

    provider.server.publish(&[&second]);
    let third = new_key("third").token(&provider.claims(&json!({}))).unwrap();
    eventually(|| {
        assert_eq!(get(&daemon, &third).status, 401);
        if get(&daemon, &old).status == 401 { Ok(()) } else { Err("accepted") }
    });
    assert_eq!(get(&daemon, &new).status, 404);
}

fn assert_unavailable(answer: &HttpResponse) {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.json()["code"], "identity_provider_unavailable");
    let seconds: u64 = answer.header("Retry-After").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
}

#[test]
fn a_provider_that_is_away_keeps_only_unknown_keys_waiting() {
    let (database, provider) = (Database::start(PostgresVersion::Newest), Provider::start());
    let places = [Sandbox::new(), Sandbox::new()];
    let daemon = provider.daemon(&database, &places[0], &[]);
    let known = provider.token(&json!({}));
    assert_eq!(get(&daemon, &known).status, 404);
    let discovery =
        json!({ "issuer": provider.server.issuer(), "jwks_uri": provider.server.key_address() });
    provider.server.reply_to_discovery(DocumentReply::Status(503, Vec::new()));
    let second = new_key("second");
    let unknown = second.token(&provider.claims(&json!({}))).unwrap();
    // The first answer may be from before the next fetch.
    wait_for_status(&daemon, &unknown, 503);
    assert_unavailable(&get(&daemon, &unknown));
    assert_eq!(get(&daemon, &known).status, 404);

    // A daemon that never saw a key serves all others.
    let late = provider.daemon(&database, &places[1], &[]);
    assert_unavailable(&get(&late, &known));
    let created = database.new_token(&places[0], "ann", "write");
    assert_eq!(get(&late, &created).status, 404);
    assert_eq!(late.get(PATH).status, 404);

    provider.server.publish(&[&provider.key, &second]);
    provider.server.reply_to_discovery(DocumentReply::Json(discovery));
    for (daemon, token) in [(&daemon, &unknown), (&late, &known)] {
        wait_for_status(daemon, token, 404);
    }
    // A provider that is gone, and not only out of order.
    let Provider { server, key } = provider;
    let claims = json!({ "iss": server.issuer() });
    drop(server);
    let token = new_key("third").token(&claims).unwrap();
    wait_for_status(&daemon, &token, 503);
    assert_eq!(get(&daemon, &known).status, 404);
    assert_eq!(get(&daemon, &key.token(&claims).unwrap()).status, 401, "known, and not valid");
}

#[test]
fn a_claim_names_an_owner_only_if_the_operator_says_so() {
    let (database, provider) = (Database::start(PostgresVersion::Debian), Provider::start());
    let place = Sandbox::new();
    let options = ["--oidc-owner-claim", "login", "--oidc-owner-mapping", "name"];
    let daemon = provider.daemon(&database, &place, &options);
    let created = database.new_token(&place, "ann", "write");
    let created = TokenCaller { daemon: &daemon, token: &created };
    assert_eq!(created.put(PATH, "Of Ann.\n").status, 201);
    let of = |login: &str| provider.token(&json!({ "sub": "any", "login": login }));
    assert_eq!(get(&daemon, &of("ann")).json()["text"], "Of Ann.\n");
    assert_eq!(get(&daemon, &of("Ann")).status, 404);
    let subject = format!("oidc:{}", Revision::digest(b"x"));
    for login in ["default", "", " ann", "ann\n", "a\0", &subject, &"x".repeat(129)] {
        assert_eq!(get(&daemon, &of(login)).status, 401, "{login:?}");
    }
    assert_eq!(get(&daemon, &provider.token(&json!({}))).status, 401, "without the claim");
}

#[test]
fn a_provider_is_read_over_tls_with_a_trusted_certificate_only() {
    let (database, provider) = (Database::start(PostgresVersion::Debian), Provider::start());
    let address = provider.server.issuer().strip_prefix("http://").unwrap().parse().unwrap();
    let proxy = TlsProxy::start(address).unwrap();
    let issuer = proxy.url();
    let discovery = json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") });
    provider.server.reply_to_discovery(DocumentReply::Json(discovery));
    let token = provider.token(&json!({ "iss": issuer }));
    let places = [Sandbox::new(), Sandbox::new()];
    let untrusting = daemon_for(&issuer, &database, &places[0], &[]);
    assert_unavailable(&get(&untrusting, &token));
    let file = places[1].path().join("authority.pem");
    std::fs::write(&file, proxy.certificate()).unwrap();
    let options = ["--oidc-issuer", &issuer, "--oidc-audience", AUDIENCE];
    let mut command = database.command(&places[1], &options);
    command.env("SSL_CERT_FILE", file);
    let trusting = Daemon::start_by(command);
    let read = get(&trusting, &token).status;
    assert_eq!(read, 404, "{}", trusting.log());
}

#[test]
fn options_of_a_provider_that_do_not_fit_are_refused() {
    let place = Sandbox::new();
    let issuer = ["--oidc-issuer", "https://login.example"];
    let audience = ["--oidc-audience", AUDIENCE];
    let database = ["--database", "postgres://127.0.0.1:1/none"];
    let plain = ["--oidc-issuer", "http://login.example"];
    let mapping = ["--oidc-owner-mapping", "name"];
    for (args, said) in [
        ([&issuer[..], &audience].concat(), "--database"),
        ([&issuer[..], &database].concat(), "--oidc-audience"),
        ([&audience[..], &database].concat(), "--oidc-issuer"),
        ([&mapping[..], &database].concat(), "--oidc-issuer"),
        ([&["--oidc-role-claim", "roles"], &database[..]].concat(), "--oidc-issuer"),
        ([&["--oidc-owner-claim", "email"], &database[..]].concat(), "--oidc-issuer"),
        ([&["--oidc-owner-mapping", "claim"], &issuer[..]].concat(), "digest"),
    ] {
        let ended = place.run_command(&mut place.lukasa(&[&["serve"], &args[..]].concat()));
        assert_eq!(ended.status, 2, "{args:?}: {}", ended.shown());
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.shown());
    }
    for (issuer, said) in [(plain[1], "https"), ("login.example", "an issuer looks like")] {
        let args = [&["serve", "--oidc-issuer", issuer], &audience[..], &database].concat();
        let ended = place.run_command(&mut place.lukasa(&args));
        assert_eq!(ended.status, 2, "{issuer}: {}", ended.shown());
        assert!(ended.stderr.contains(said), "{issuer}: {}", ended.shown());
    }
}

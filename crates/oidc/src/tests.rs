//! Tests of signatures, claims, addresses and fetches.

use std::sync::Arc;

use memory::clock::Timestamp;
use memory::owner::Role;
use serde_json::{Value, json};
use testkit::{
    DocumentReply, IdentityServer, ManualClock, ProviderKeyPair, SigningAlgorithm,
    token_with_secret, unsigned_token,
};

use crate::claims::{ClaimRules, VerifiedClaims};
use crate::error::{ConfigError, InvalidToken, VerifyError};
use crate::issuer::Issuer;
use crate::jwt::UnverifiedToken;
use crate::key::KeySet;
use crate::limits::JWT_BYTES_MAX;
use crate::verifier::TokenVerifier;

mod fetches;

/// The time of these tests, in seconds since 1970.
const NOW: i64 = 1_767_225_600;

/// Keys and tokens that OpenSSL 3.0 made, so that they do not only agree with the library that checks them.
const MADE_BY_OPENSSL: &str = include_str!("tests/openssl.json");

fn made_by_openssl() -> Value {
    serde_json::from_str(MADE_BY_OPENSSL).unwrap()
}

fn key_set(keys: &Value) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn verify(keys: &KeySet, token: &str) -> Result<(), InvalidToken> {
    UnverifiedToken::parse(token).and_then(|token| keys.verify(&token))
}

#[test]
fn tokens_of_all_algorithms_are_verified_with_the_right_key_only() {
    let made = made_by_openssl();
    let keys = key_set(&made["keys"]);
    let tokens = made["tokens"].as_object().unwrap();
    assert_eq!((keys.len(), tokens.len()), (4, 9));
    for (algorithm, token) in tokens {
        let token = token.as_str().unwrap();
        assert_eq!(verify(&keys, token), Ok(()), "{algorithm}");
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = message.split_once('.').unwrap();
        let other = unsigned_token(&Value::Null, &json!({ "sub": "ben" }));
        let (_, other) = other.split_once('.').unwrap();
        let changed = format!("{header}.{other}.{signature}");
        assert_eq!(verify(&keys, &changed), Err(InvalidToken::Signature), "{algorithm}");
        let cut = format!("{message}.{}", signature.get(4..).unwrap());
        assert_eq!(verify(&keys, &cut), Err(InvalidToken::Signature), "{algorithm}");
    }
}

#[test]
fn a_token_with_any_other_character_is_refused() {
    let pair = ProviderKeyPair::generate("one", SigningAlgorithm::EdDsa).unwrap();
    let keys = key_set(&json!([pair.public_key()]));
    let token = pair.token(&json!({ "sub": "ann" })).unwrap();
    assert_eq!(verify(&keys, &token), Ok(()));
    for position in 0..token.len() {
        for other in ["A", "B", "_", ".", "=", "\n", "é", ""] {
            let mut changed = token.clone();
            changed.replace_range(position..=position, other);
            assert!(changed == token || verify(&keys, &changed).is_err(), "{changed}");
        }
    }
}

#[test]
fn a_key_decides_which_algorithms_it_is_for() {
    let made = made_by_openssl();
    let rsa = |fields: &Value| {
        let mut key = made["keys"][0].clone();
        key.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        key_set(&json!([key]))
    };
    let check = |keys: &KeySet, algorithm: &str, expected| {
        let token = made["tokens"][algorithm].as_str().unwrap();
        assert_eq!(verify(keys, token), expected, "{algorithm} with {keys:?}");
    };
    let ps256 = rsa(&json!({ "alg": "PS256", "use": "sig", "key_ops": ["verify"] }));
    check(&ps256, "PS256", Ok(()));
    check(&ps256, "RS256", Err(InvalidToken::KeyMismatch));
    for fields in [
        json!({ "use": "enc" }),
        json!({ "key_ops": ["sign"] }),
        json!({ "alg": "RSA-OAEP" }),
        json!({ "alg": "ES256" }),
        json!({ "alg": "HS256" }),
        json!({ "kty": "oct", "k": "AAAA" }),
        json!({ "n": "AAAA" }),
        json!({ "kid": 7 }),
    ] {
        assert_eq!(rsa(&fields).len(), 0, "{fields}");
    }
    assert_eq!(key_set(&json!([made["short"]])).len(), 0, "1,024 bits are too few");
    let elliptic = key_set(&json!([made["keys"][1]]));
    let relabeled = made["tokens"]["ES256"].as_str().unwrap().split_once('.').unwrap().1;
    for (algorithm, expected) in [
        ("ES256", InvalidToken::Signature),
        ("ES384", InvalidToken::KeyMismatch),
        ("RS256", InvalidToken::KeyMismatch),
        ("EdDSA", InvalidToken::KeyMismatch),
    ] {
        // One more field than the signed header has.
        let header = json!({ "alg": algorithm, "kid": "p256", "typ": "JWT" });
        let unsigned = unsigned_token(&header, &Value::Null);
        let (header, _) = unsigned.split_once('.').unwrap();
        assert_eq!(verify(&elliptic, &format!("{header}.{relabeled}")), Err(expected));
    }
}

#[test]
fn a_number_with_zeros_in_front_is_the_same_number() {
    let made = made_by_openssl();
    let mut key = made["keys"][0].clone();
    // Three zero bytes are four digits of base64.
    key["n"] = Value::String(format!("AAAA{}", key["n"].as_str().unwrap()));
    assert_eq!(verify(&key_set(&json!([key])), made["tokens"]["RS256"].as_str().unwrap()), Ok(()));
}

#[test]
fn a_token_without_the_id_of_a_key_is_verified_if_there_is_one_key() {
    let made = made_by_openssl();
    let pair = ProviderKeyPair::generate("one", SigningAlgorithm::EdDsa).unwrap();
    let header = json!({ "alg": "Ed25519" });
    let token = pair.token_with_header(&header, &json!({})).unwrap();
    assert_eq!(verify(&key_set(&json!([pair.public_key()])), &token), Ok(()));
    let two = key_set(&json!([pair.public_key(), made["keys"][0]]));
    assert_eq!(verify(&two, &token), Err(InvalidToken::UnknownKey));
    let none = key_set(&json!([]));
    assert_eq!(verify(&none, &token), Err(InvalidToken::UnknownKey));
}

#[test]
fn a_token_of_another_form_is_refused_before_its_signature_is_checked() {
    let pair = ProviderKeyPair::generate("one", SigningAlgorithm::Es256).unwrap();
    let keys = key_set(&json!([pair.public_key()]));
    let check = |token: &str, expected| assert_eq!(verify(&keys, token), expected, "{token}");
    let with = |fields: Value| {
        let mut header = pair.header();
        header.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        pair.token_with_header(&header, &json!({})).unwrap()
    };
    for kind in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        check(&with(json!({ "typ": kind })), Ok(()));
    }
    check(&with(json!({ "typ": "logout+jwt" })), Err(InvalidToken::Kind));
    check(&with(json!({ "typ": 1 })), Err(InvalidToken::Malformed));
    check(&with(json!({ "crit": ["b64"], "b64": false })), Err(InvalidToken::Critical));
    check(&with(json!({ "kid": 1 })), Err(InvalidToken::Malformed));
    check(&with(json!({ "kid": "two" })), Err(InvalidToken::UnknownKey));
    for algorithm in ["none", "None", "HS256", "HS512", "ES512", "RS1", "es256", ""] {
        check(&with(json!({ "alg": algorithm })), Err(InvalidToken::Algorithm));
    }
    let unsigned = unsigned_token(&json!({ "alg": "none" }), &json!({}));
    check(&format!("{unsigned}."), Err(InvalidToken::Algorithm));
    check(&unsigned, Err(InvalidToken::Malformed));
    let secret = token_with_secret(
        &json!({ "alg": "HS256", "kid": "one" }),
        &json!({}),
        pair.public_bytes(),
    );
    check(&secret, Err(InvalidToken::Algorithm));
    let good = with(json!({}));
    check(&good, Ok(()));
    check(&format!("{good}="), Err(InvalidToken::Malformed));
    check(&format!("{good}.{good}"), Err(InvalidToken::Signature));
    check(good.rsplit_once('.').unwrap().0, Err(InvalidToken::Malformed));
    check(&format!("{}.", good.rsplit_once('.').unwrap().0), Err(InvalidToken::Signature));
    for text in ["", ".", "..", "a.b.c", "e30.e30.", "lukasa_0123", "W10.e30.AA"] {
        check(text, Err(InvalidToken::Malformed));
    }
    check(&"x".repeat(JWT_BYTES_MAX + 1), Err(InvalidToken::TooLarge));
}

fn rules() -> ClaimRules {
    ClaimRules {
        issuer: "https://login.example".to_owned(),
        audience: "lukasa".to_owned(),
        owner_claim: "sub".to_owned(),
        role_claim: None,
    }
}

/// Returns claims that are valid, with these in place of some; `null` leaves one out.
fn claims(changed: &Value) -> serde_json::Map<String, Value> {
    let valid = json!({
        "iss": "https://login.example", "aud": "lukasa", "sub": "ann", "exp": NOW + 60, "nbf": NOW - 60,
    });
    let mut claims = valid.as_object().unwrap().clone();
    claims.extend(changed.as_object().unwrap().clone());
    claims.retain(|_, value| !value.is_null());
    claims
}

#[test]
fn a_token_is_valid_for_one_issuer_one_audience_and_some_time() {
    let check = |changed: Value, expected: Result<(), InvalidToken>| {
        let checked = rules().check(&claims(&changed), NOW);
        let valid = VerifiedClaims { owner: "ann".to_owned(), role: Role::Write };
        assert_eq!(checked, expected.map(|()| valid), "{changed}");
    };
    check(json!({}), Ok(()));
    check(json!({ "aud": ["other", "lukasa"], "nbf": null, "iat": NOW }), Ok(()));
    for issuer in [json!("https://login.example/"), json!(["https://login.example"]), json!(null)] {
        check(json!({ "iss": issuer }), Err(InvalidToken::Issuer));
    }
    for audience in [json!("lukas"), json!("lukasa lukasa"), json!([]), json!([["lukasa"]])] {
        check(json!({ "aud": audience }), Err(InvalidToken::Audience));
    }
    check(json!({ "aud": null }), Err(InvalidToken::Audience));
    check(json!({ "exp": NOW - 59 }), Ok(()));
    check(json!({ "exp": NOW - 60 }), Err(InvalidToken::Expired));
    check(json!({ "exp": 1.5 }), Err(InvalidToken::Expired));
    check(json!({ "exp": -1 }), Err(InvalidToken::Expired));
    check(json!({ "exp": null }), Err(InvalidToken::Claim("exp")));
    check(json!({ "exp": "9999999999" }), Err(InvalidToken::Claim("exp")));
    check(json!({ "nbf": NOW + 60 }), Ok(()));
    check(json!({ "nbf": NOW + 61 }), Err(InvalidToken::NotYetValid));
    check(json!({ "nbf": "0" }), Err(InvalidToken::Claim("nbf")));
    check(json!({ "cnf": { "jkt": "x" } }), Err(InvalidToken::Bound));
    check(json!({ "events": {} }), Err(InvalidToken::Kind));
    for owner in [json!(null), json!(""), json!(7), json!(["ann"])] {
        check(json!({ "sub": owner }), Err(InvalidToken::Owner));
    }
}

#[test]
fn the_highest_role_of_a_claim_counts_and_one_without_a_role_is_refused() {
    let check = |claim: Value, expected: Option<Role>| {
        let rules = ClaimRules { role_claim: Some("roles".to_owned()), ..rules() };
        let role = rules.check(&claims(&json!({ "roles": claim })), NOW).map(|claims| claims.role);
        assert_eq!(role, expected.ok_or(InvalidToken::Role), "{claim}");
    };
    check(json!("read"), Some(Role::Read));
    check(json!(["read", "write"]), Some(Role::Write));
    check(json!(["admin", 7, "read", "owner"]), Some(Role::Admin));
    check(json!("openid write read"), Some(Role::Write));
    for claim in [json!(null), json!(""), json!([]), json!(["Admin"]), json!("administrator")] {
        check(claim, None);
    }
    for claim in [json!({ "admin": true }), json!(true), json!(["read write"]), json!([["admin"]])]
    {
        check(claim, None);
    }
}

#[test]
fn an_email_address_names_an_owner_only_if_it_is_verified() {
    let rules = ClaimRules { owner_claim: "email".to_owned(), ..rules() };
    let check = |verified: Value, expected: Result<&str, InvalidToken>| {
        let given = json!({ "email": "ann@example.org", "email_verified": verified });
        let owner = rules.check(&claims(&given), NOW).map(|claims| claims.owner);
        assert_eq!(owner, expected.map(str::to_owned), "{verified}");
    };
    check(json!(true), Ok("ann@example.org"));
    for verified in [json!(false), json!(null), json!("true")] {
        check(verified, Err(InvalidToken::EmailNotVerified));
    }
}

#[test]
fn an_issuer_is_encrypted_or_on_this_machine() {
    fn check(text: &str, expected: Result<&str, &str>) {
        let issuer = Issuer::parse(text);
        let address = issuer.map(|issuer| issuer.discovery_address());
        let expected = expected.map(|base| format!("{base}/.well-known/openid-configuration"));
        match (address, expected) {
            (Ok(address), Ok(expected)) => assert_eq!(address, expected),
            (Err(ConfigError::PlainIssuer), Err("plain"))
            | (Err(ConfigError::MalformedIssuer), Err("malformed")) => {}
            other => panic!("{text}: {other:?}"),
        }
    }
    check("https://login.example/realms/one", Ok("https://login.example/realms/one"));
    check("https://login.example/", Ok("https://login.example"));
    for local in ["http://127.0.0.1:8080", "http://localhost:8080/a", "http://[::1]:1"] {
        check(local, Ok(local));
    }
    for plain in ["http://login.example", "http://10.0.0.1", "http://localhost.example"] {
        check(plain, Err("plain"));
    }
    for malformed in [
        "",
        "login.example",
        "https://",
        "ftp://127.0.0.1",
        "https://ann@login.example",
        "https://login.example/?a",
        "https://login.example/#a",
        "https://login.example/a b",
        "https://login.example\n",
    ] {
        check(malformed, Err("malformed"));
    }
    let keys =
        |issuer: &str, address: &str| Issuer::parse(issuer).unwrap().key_address(address).is_some();
    assert!(keys("https://login.example", "https://keys.example/all"));
    assert!(
        !keys("https://login.example", "http://127.0.0.1/all"),
        "a provider names no plain one"
    );
    assert!(keys("http://127.0.0.1:1", "http://localhost:2/all"));
    assert!(!keys("http://127.0.0.1:1", "http://keys.example/all"));
    assert!(!keys("http://127.0.0.1:1", "file:///etc/passwd"));
}

#[tokio::test]
async fn each_issuer_claim_and_value_has_a_digest_of_its_own() {
    let clock = Arc::new(ManualClock::default());
    let verifier = |issuer: &str, claim: &str| {
        let rules =
            ClaimRules { issuer: issuer.to_owned(), owner_claim: claim.to_owned(), ..rules() };
        TokenVerifier::start(rules, Arc::<ManualClock>::clone(&clock)).unwrap()
    };
    let one = verifier("http://127.0.0.1:1", "sub");
    // printf '%s\0%s\0%s' http://127.0.0.1:1 sub ann | sha256sum
    let ann = "042e52628603468a284c602de751c358cd291b91426507c0352105b5e52c4465";
    assert_eq!(one.subject_digest("ann").to_string(), ann);
    let others = [
        one.subject_digest("Ann"),
        one.subject_digest("ann "),
        one.subject_digest(""),
        verifier("http://127.0.0.1:1", "name").subject_digest("ann"),
        verifier("http://127.0.0.1:1/", "sub").subject_digest("ann"),
        verifier("http://127.0.0.1:11", "sub").subject_digest("ann"),
    ];
    for (index, other) in others.iter().enumerate() {
        assert_ne!(other.to_string(), ann);
        assert!(!others[..index].contains(other));
    }
}

#[tokio::test]
async fn names_of_claims_have_no_control_characters() {
    let start =
        |rules: ClaimRules| TokenVerifier::start(rules, Arc::new(ManualClock::default())).map(drop);
    let local = ClaimRules { issuer: "http://127.0.0.1:1".to_owned(), ..rules() };
    assert!(start(local.clone()).is_ok());
    for wrong in [
        ClaimRules { audience: String::new(), ..local.clone() },
        ClaimRules { owner_claim: "a\0b".to_owned(), ..local.clone() },
        ClaimRules { role_claim: Some(String::new()), ..local.clone() },
    ] {
        assert!(matches!(start(wrong), Err(ConfigError::Name)));
    }
}

/// Reads the keys of a real server over HTTP, and verifies a token with them.
async fn verify_at(server: &IdentityServer, token: &str) -> Result<VerifiedClaims, VerifyError> {
    let rules = ClaimRules { issuer: server.issuer(), ..rules() };
    let clock = ManualClock::at(Timestamp::from_second(NOW).unwrap());
    TokenVerifier::start(rules, Arc::new(clock)).unwrap().verify(token).await
}

#[tokio::test]
async fn a_token_needs_a_right_signature_and_right_claims() {
    let [pair, other] =
        [(); 2].map(|()| ProviderKeyPair::generate("one", SigningAlgorithm::Es256).unwrap());
    let server = IdentityServer::start(&[&pair]).unwrap();
    let claims =
        |audience: &str| Value::Object(claims(&json!({ "iss": server.issuer(), "aud": audience })));
    for (signer, audience, expected) in [
        (&pair, "lukasa", Ok("ann".to_owned())),
        (&other, "lukasa", Err(InvalidToken::Signature)),
        (&pair, "other", Err(InvalidToken::Audience)),
        (&other, "other", Err(InvalidToken::Signature)),
    ] {
        let verified = verify_at(&server, &signer.token(&claims(audience)).unwrap()).await;
        let owner = verified.map(|claims| claims.owner);
        assert_eq!(owner, expected.map_err(VerifyError::Invalid), "{audience}");
    }
}

#[tokio::test]
async fn a_provider_that_answers_wrongly_has_no_keys() {
    let pair = ProviderKeyPair::generate("one", SigningAlgorithm::Es384).unwrap();
    let token = |server: &IdentityServer| {
        let claims = claims(&json!({ "iss": server.issuer() }));
        pair.token(&Value::Object(claims)).unwrap()
    };
    let server = IdentityServer::start(&[&pair]).unwrap();
    let verified = verify_at(&server, &token(&server)).await;
    assert_eq!(verified.map(|claims| claims.owner), Ok("ann".to_owned()));

    let elsewhere = server.key_address();
    let moved = DocumentReply::Status(302, vec![("location", elsewhere.clone())]);
    let discovery = |issuer: &str, keys: &str| {
        DocumentReply::Json(json!({ "issuer": issuer, "jwks_uri": keys }))
    };
    let large = json!({ "keys": [pair.public_key()], "padding": "x".repeat(300_000) });
    for (document, reply) in [
        ("keys", moved),
        ("keys", DocumentReply::Status(500, Vec::new())),
        ("keys", DocumentReply::Json(json!([]))),
        ("keys", DocumentReply::Json(large)),
        ("keys", DocumentReply::Flood),
        ("discovery", DocumentReply::Status(404, Vec::new())),
        ("discovery", DocumentReply::Json(json!({ "jwks_uri": elsewhere }))),
        ("discovery", discovery("https://login.example", &elsewhere)),
        ("discovery", discovery(&format!("{}/", server.issuer()), &elsewhere)),
        ("discovery", discovery(&server.issuer(), "http://keys.example/all")),
        ("discovery", discovery(&server.issuer(), "keys")),
    ] {
        let server = IdentityServer::start(&[&pair]).unwrap();
        let shown = format!("{document}: {reply:?}").chars().take(200).collect::<String>();
        if document == "keys" {
            server.reply_with_keys(reply);
        } else {
            server.reply_to_discovery(reply);
        }
        let verified = verify_at(&server, &token(&server)).await;
        assert!(matches!(verified, Err(VerifyError::Unavailable { .. })), "{shown}: {verified:?}");
    }
}

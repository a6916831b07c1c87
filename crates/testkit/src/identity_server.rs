//! An identity provider for tests: its two documents over HTTP, keys, and tokens that they sign.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _,
};
use serde_json::{Value, json};

use crate::http::{TestServer, answer, flood};

/// The path of the discovery document.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// The path of the keys.
const KEYS: &str = "/keys";

/// An answer of the provider to a request for a document.
#[derive(Clone, Debug)]
pub enum DocumentReply {
    /// The document.
    Json(Value),
    /// A status other than 200, with these headers.
    Status(u16, Vec<(&'static str, String)>),
    /// No answer; the connection stays open.
    Silence,
    /// An answer without end.
    Flood,
}

/// An identity provider on this machine.
#[derive(Debug)]
pub struct IdentityServer {
    server: TestServer<String>,
    replies: Arc<Mutex<HashMap<&'static str, DocumentReply>>>,
}

impl IdentityServer {
    /// Starts a provider that publishes these keys.
    pub fn start(keys: &[&ProviderKeyPair]) -> io::Result<Self> {
        let replies = Arc::new(Mutex::new(HashMap::<_, DocumentReply>::new()));
        let known = Arc::clone(&replies);
        let path = |head: String, _body: Value| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            // The URL of a `TlsProxy` has this path.
            path.strip_prefix("/v1").unwrap_or(path).to_owned()
        };
        let server = TestServer::start(path, move |_, path: &String, stream| {
            let reply = known.lock().get(path.as_str()).cloned();
            send(stream, reply.unwrap_or(DocumentReply::Status(404, Vec::new())))
        })?;
        let started = Self { server, replies };
        let (issuer, key_address) = (started.issuer(), started.key_address());
        started.reply_to_discovery(DocumentReply::Json(
            json!({ "issuer": issuer, "jwks_uri": key_address }),
        ));
        started.publish(keys);
        Ok(started)
    }

    /// Returns the issuer.
    pub fn issuer(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Returns the address of the keys.
    pub fn key_address(&self) -> String {
        format!("{}{KEYS}", self.issuer())
    }

    /// Publishes these keys, and no others.
    pub fn publish(&self, keys: &[&ProviderKeyPair]) {
        let keys: Vec<_> = keys.iter().map(|key| key.public_key()).collect();
        self.reply_with_keys(DocumentReply::Json(json!({ "keys": keys })));
    }

    /// Answers requests for the keys in this way.
    pub fn reply_with_keys(&self, reply: DocumentReply) {
        self.replies.lock().insert(KEYS, reply);
    }

    /// Answers requests for the discovery document in this way.
    pub fn reply_to_discovery(&self, reply: DocumentReply) {
        self.replies.lock().insert(DISCOVERY, reply);
    }

    /// Returns the number of requests for the discovery document so far. Each fetch begins with one.
    pub fn fetches(&self) -> usize {
        self.server.requests().iter().filter(|path| *path == DISCOVERY).count()
    }
}

fn send(stream: &mut TcpStream, reply: DocumentReply) -> io::Result<bool> {
    match reply {
        DocumentReply::Json(document) => {
            answer(stream, 200, &[], document.to_string().as_bytes())?;
        }
        DocumentReply::Status(status, headers) => {
            let headers: Vec<_> = headers.iter().map(|(name, text)| (*name, &**text)).collect();
            // A client that does not look at the status would find no key.
            answer(stream, status, &headers, br#"{"keys": []}"#)?;
        }
        DocumentReply::Silence => return Ok(false),
        DocumentReply::Flood => flood(stream)?,
    }
    Ok(true)
}

/// The algorithm of a key pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// ECDSA on P-256.
    Es256,
    /// ECDSA on P-384.
    Es384,
    /// `EdDSA` on Ed25519.
    EdDsa,
}

/// A key pair of a provider, made for a test.
pub struct ProviderKeyPair {
    id: String,
    signer: Signer,
}

enum Signer {
    Ecdsa(Box<EcdsaKeyPair>, SigningAlgorithm),
    EdDsa(Box<Ed25519KeyPair>),
}

impl fmt::Debug for ProviderKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderKeyPair").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ProviderKeyPair {
    /// Makes a new pair with this id.
    pub fn generate(id: &str, algorithm: SigningAlgorithm) -> io::Result<Self> {
        let signer = match algorithm {
            SigningAlgorithm::Es256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING, algorithm),
            SigningAlgorithm::Es384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING, algorithm),
            SigningAlgorithm::EdDsa => ed25519(),
        };
        let signer = signer.map_err(|Unspecified| io::Error::other("no key can be made"))?;
        Ok(Self { id: id.to_owned(), signer })
    }

    /// Returns the header that tokens of this key have.
    pub fn header(&self) -> Value {
        let name = match &self.signer {
            Signer::Ecdsa(_, SigningAlgorithm::Es384) => "ES384",
            Signer::Ecdsa(..) => "ES256",
            Signer::EdDsa(_) => "EdDSA",
        };
        json!({ "typ": "JWT", "alg": name, "kid": self.id })
    }

    /// Returns the public key, as providers publish it.
    pub fn public_key(&self) -> Value {
        let point = self.public_bytes();
        match &self.signer {
            Signer::Ecdsa(_, algorithm) => {
                let curve = if *algorithm == SigningAlgorithm::Es384 { "P-384" } else { "P-256" };
                // The first byte says that both coordinates follow.
                let (x, y) = point[1..].split_at(point.len() / 2);
                json!({
                    "kty": "EC", "crv": curve, "kid": self.id, "use": "sig", "x": encode(x), "y": encode(y),
                })
            }
            Signer::EdDsa(_) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": encode(point) })
            }
        }
    }

    /// Returns the bytes of the public key.
    pub fn public_bytes(&self) -> &[u8] {
        match &self.signer {
            Signer::Ecdsa(key, _) => key.public_key().as_ref(),
            Signer::EdDsa(key) => key.public_key().as_ref(),
        }
    }

    /// Returns a token with these claims.
    pub fn token(&self, claims: &Value) -> io::Result<String> {
        self.token_with_header(&self.header(), claims)
    }

    /// Returns a token with this header and these claims, signed as the key does it.
    pub fn token_with_header(&self, header: &Value, claims: &Value) -> io::Result<String> {
        let message = unsigned_token(header, claims);
        let signature = match &self.signer {
            Signer::Ecdsa(key, _) => {
                let signed = key.sign(&SystemRandom::new(), message.as_bytes());
                signed.map_err(|Unspecified| io::Error::other("cannot sign"))?.as_ref().to_vec()
            }
            Signer::EdDsa(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
        };
        Ok(format!("{message}.{}", encode(&signature)))
    }
}

/// Returns a token with this header and these claims, signed by HMAC with a secret, as algorithms with shared secrets do it.
pub fn token_with_secret(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = unsigned_token(header, claims);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    format!("{message}.{}", encode(ring::hmac::sign(&key, message.as_bytes()).as_ref()))
}

/// Returns the header and the claims of a token, without a signature.
pub fn unsigned_token(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn ecdsa(
    parameters: &'static EcdsaSigningAlgorithm,
    algorithm: SigningAlgorithm,
) -> Result<Signer, Unspecified> {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(parameters, &random)?;
    let pair = EcdsaKeyPair::from_pkcs8(parameters, document.as_ref(), &random);
    Ok(Signer::Ecdsa(Box::new(pair.map_err(|_| Unspecified)?), algorithm))
}

fn ed25519() -> Result<Signer, Unspecified> {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())?;
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).map_err(|_| Unspecified)?;
    Ok(Signer::EdDsa(Box::new(pair)))
}

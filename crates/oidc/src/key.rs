//! The public keys of a provider, and the check of signatures.
//!
//! A key decides which algorithms it is for. The header of a token only selects one of them, so a token cannot have its
//! signature checked in a way that the key is not meant for. Algorithms with shared secrets do not exist here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, EcdsaVerificationAlgorithm, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{FetchError, InvalidToken};
use crate::jwt::UnverifiedToken;
use crate::limits::{RSA_BITS_MAX, RSA_BITS_MIN};

/// An algorithm of signatures with a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Ed25519,
}

impl Algorithm {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // RFC 9864 replaces the first name by the second.
            "EdDSA" | "Ed25519" => Self::Ed25519,
            _ => return None,
        })
    }

    /// Returns the parameters of `ring` for an algorithm of RSA.
    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::Ed25519 => return None,
        })
    }
}

/// The public part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PublicKey {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    fn is_for(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa { .. } => algorithm.rsa().is_some(),
            Self::P256(_) => algorithm == Algorithm::Es256,
            Self::P384(_) => algorithm == Algorithm::Es384,
            Self::Ed25519(_) => algorithm == Algorithm::Ed25519,
        }
    }

    fn verify(&self, algorithm: Algorithm, token: &UnverifiedToken<'_>) -> bool {
        let (message, signature) = (token.message, token.signature.as_slice());
        let ecdsa = |of: &'static EcdsaVerificationAlgorithm, point: &[u8]| {
            UnparsedPublicKey::new(of, point).verify(message, signature)
        };
        let verified = match (self, algorithm.rsa()) {
            (Self::Rsa { modulus, exponent }, Some(parameters)) => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature)
            }
            (Self::Rsa { .. }, None) => return false,
            (Self::P256(point), _) => ecdsa(&signature::ECDSA_P256_SHA256_FIXED, point),
            (Self::P384(point), _) => ecdsa(&signature::ECDSA_P384_SHA384_FIXED, point),
            (Self::Ed25519(point), _) => {
                UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

/// A key of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProviderKey {
    id: Option<String>,
    /// The one algorithm that the provider uses the key for, if it says so.
    algorithm: Option<Algorithm>,
    public: PublicKey,
}

impl ProviderKey {
    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.public.is_for(algorithm) && self.algorithm.is_none_or(|own| own == algorithm)
    }
}

/// The keys of a provider with which signatures can be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySet(Vec<ProviderKey>);

#[derive(Deserialize)]
struct KeyDocument {
    keys: Vec<Value>,
}

/// A key as the provider publishes it.
#[derive(Deserialize)]
struct PublishedKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Parses the document of keys. Keys of other kinds and for other purposes are left out.
    pub(crate) fn parse(document: &[u8]) -> Result<Self, FetchError> {
        let document: KeyDocument =
            serde_json::from_slice(document).map_err(|_| FetchError::Malformed)?;
        let published =
            document.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        Ok(Self(published.filter_map(ProviderKey::new).collect()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks whether a token names a key of this set. A token without an id names the only key that there is.
    pub(crate) fn has_key_of(&self, token: &UnverifiedToken<'_>) -> bool {
        self.candidates(token).next().is_some()
    }

    /// Checks the signature of a token.
    pub(crate) fn verify(&self, token: &UnverifiedToken<'_>) -> Result<(), InvalidToken> {
        let mut refused = InvalidToken::UnknownKey;
        for key in self.candidates(token) {
            if !key.is_for(token.algorithm) {
                refused = InvalidToken::KeyMismatch;
            } else if key.public.verify(token.algorithm, token) {
                return Ok(());
            } else {
                refused = InvalidToken::Signature;
            }
        }
        Err(refused)
    }

    fn candidates(&self, token: &UnverifiedToken<'_>) -> impl Iterator<Item = &ProviderKey> {
        let is_named = |key: &&ProviderKey| match &token.key_id {
            Some(id) => key.id.as_ref() == Some(id),
            None => self.0.len() == 1,
        };
        self.0.iter().filter(is_named)
    }
}

impl ProviderKey {
    fn new(published: PublishedKey) -> Option<Self> {
        let is_to_verify = published.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && published.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let public = if is_to_verify { PublicKey::new(&published)? } else { return None };
        let algorithm = match &published.alg {
            None => None,
            // A key for an algorithm that is not supported is not used with another one.
            Some(name) => Some(Algorithm::parse(name).filter(|own| public.is_for(*own))?),
        };
        Some(Self { id: published.kid, algorithm, public })
    }
}

impl PublicKey {
    fn new(published: &PublishedKey) -> Option<Self> {
        match (published.kty.as_str(), published.crv.as_deref()) {
            ("RSA", _) => {
                let number = |text: &Option<String>| Some(without_zeros(decode(text.as_ref())?));
                let (modulus, exponent) = (number(&published.n)?, number(&published.e)?);
                let bits = modulus.len() * 8 - leading_zeros(&modulus);
                let has_size = (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits);
                (has_size && !exponent.is_empty()).then_some(Self::Rsa { modulus, exponent })
            }
            ("EC", Some("P-256")) => point::<32>(published).map(Self::P256),
            ("EC", Some("P-384")) => point::<48>(published).map(Self::P384),
            ("OKP", Some("Ed25519")) => {
                decode(published.x.as_ref()).filter(|x| x.len() == 32).map(Self::Ed25519)
            }
            _ => None,
        }
    }
}

/// Returns a point of a curve in its uncompressed form.
fn point<const BYTES: usize>(published: &PublishedKey) -> Option<Vec<u8>> {
    let (x, y) = (decode(published.x.as_ref())?, decode(published.y.as_ref())?);
    let has_size = x.len() == BYTES && y.len() == BYTES;
    has_size.then(|| [&[4], x.as_slice(), y.as_slice()].concat())
}

fn decode(text: Option<&String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok()
}

/// Returns a number without zeros in front: some providers send one, and `ring` takes none.
fn without_zeros(mut number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..zeros);
    number
}

fn leading_zeros(number: &[u8]) -> usize {
    number.first().map_or(0, |first| first.leading_zeros() as usize)
}

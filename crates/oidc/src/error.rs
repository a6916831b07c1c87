//! The reasons for which a token is not accepted, and the errors of reading a provider.
//!
//! No message has a part of a token: they are written to the log.

use std::time::Duration;

/// A token that is not accepted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The token is not valid.
    #[error(transparent)]
    Invalid(#[from] InvalidToken),
    /// The keys are not known, and the provider does not answer.
    #[error("the identity provider cannot be reached, and the key of the token is not known")]
    Unavailable {
        /// The time after which the provider may be asked again.
        retry_after: Duration,
    },
}

/// The reason for which a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// It is larger than tokens are.
    #[error("the token is too large")]
    TooLarge,
    /// It does not consist of three parts in base64url, or its header or its claims are no JSON object.
    #[error("the token is not a signed JWT")]
    Malformed,
    /// The algorithm is unknown, none, or one with a shared secret.
    #[error("the algorithm of the token is not accepted")]
    Algorithm,
    /// The header has extensions that the receiver must know.
    #[error("the token has critical header parameters, of which none is known")]
    Critical,
    /// The header says that it is another kind of token.
    #[error("the type of the token is neither that of an access token nor of an ID token")]
    Kind,
    /// The provider has no key of that id.
    #[error("the provider has no key with the id that the token names")]
    UnknownKey,
    /// The key is not for the algorithm of the header.
    #[error("the key of the token is not for its algorithm")]
    KeyMismatch,
    /// The signature is wrong.
    #[error("the signature of the token is wrong")]
    Signature,
    /// A required claim is missing or has the wrong type.
    #[error("the claim `{0}` is missing or has the wrong type")]
    Claim(&'static str),
    /// `exp` is past.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `iss` is another issuer.
    #[error("the token is of another issuer")]
    Issuer,
    /// `aud` does not have the audience of this daemon.
    #[error("the token is for another audience")]
    Audience,
    /// The token is bound to a key that the caller would have to prove to have.
    #[error("the token is bound to a key (`cnf`), which cannot be checked here")]
    Bound,
    /// The claim of the owner is missing or no text.
    #[error("the claim that names the owner is missing, empty or no text")]
    Owner,
    /// The owner is an email address that the provider has not verified.
    #[error("the email address is not verified (`email_verified`)")]
    EmailNotVerified,
    /// The claim of the role has none that is known.
    #[error("the claim of the role has neither `read`, `write` nor `admin`")]
    Role,
}

/// An error of reading the keys of a provider.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("no answer in time")]
    Timeout,
    #[error("no answer")]
    Request(#[source] reqwest::Error),
    #[error("the answer has the status {0}")]
    Status(u16),
    #[error("the document is too large")]
    TooLarge,
    #[error("the document is not JSON of the expected form")]
    Malformed,
    #[error("the discovery document is of another issuer: `issuer` must be the configured text")]
    OtherIssuer,
    #[error("the address of the keys is not an `https` address")]
    KeyAddress,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The issuer is no URL of the expected form.
    #[error(
        "an issuer looks like `https://login.example.com/realm`, without user, query or fragment"
    )]
    MalformedIssuer,
    /// The issuer is another machine, without encryption.
    #[error("`http` is accepted for addresses of this machine only: use `https`")]
    PlainIssuer,
    /// A name is empty or has control characters.
    #[error("a name has at least one character, and no control character")]
    Name,
    /// The HTTP client cannot be built, such as without certificates of authorities.
    #[error("the HTTP client for the identity provider cannot be built")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

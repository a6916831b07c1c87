//! The limits of this crate, each with its reason.

use std::time::Duration;

/// The longest token that is parsed. Tokens have some hundred bytes to a few thousand, and a longer one costs work before it
/// can be refused.
pub(crate) const JWT_BYTES_MAX: usize = 8 * 1024;

/// The largest document of a provider. Those in use have a few thousand bytes, with certificates some ten thousand.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// The longest wait for both documents of a provider, and so for a token with an unknown key.
pub(crate) const FETCH_WAIT: Duration = Duration::from_secs(10);

/// The shortest time between two fetches: tokens with invented key ids cause no more than one each.
pub(crate) const FETCH_INTERVAL_MIN: Duration = Duration::from_secs(5);

/// The time between fetches that no token asks for. A key that the provider withdrew is accepted for as long.
pub(crate) const FETCH_INTERVAL: Duration = Duration::from_mins(10);

/// The time until the next fetch after one that failed.
pub(crate) const FETCH_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The age at which keys are no longer used, if the provider is away for so long. A key that leaked must not be accepted
/// for ever because its withdrawal cannot be read.
pub(crate) const KEYS_AGE_MAX: Duration = Duration::from_hours(24);

/// The difference between the clocks of provider and daemon that `exp` and `nbf` tolerate.
pub(crate) const CLOCK_LEEWAY: Duration = Duration::from_mins(1);

/// The sizes of RSA keys that are accepted, in bits. Shorter ones can be broken, longer ones take long.
pub(crate) const RSA_BITS_MIN: usize = 2_048;
/// See [`RSA_BITS_MIN`].
pub(crate) const RSA_BITS_MAX: usize = 8_192;

const _: () = assert!(FETCH_INTERVAL_MIN.as_secs() < FETCH_RETRY_INTERVAL.as_secs());
const _: () = assert!(FETCH_INTERVAL.as_secs() < KEYS_AGE_MAX.as_secs());

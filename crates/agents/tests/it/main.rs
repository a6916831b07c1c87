//! Curators through their public API: labeled cases with expected rates, properties for any input, and a real
//! store.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the helpers of these tests create real folders, and panic if that fails"
)]

mod case;

mod rates;

mod review;

mod safety;

mod properties;

mod stored;

mod subjects;

mod by_model;

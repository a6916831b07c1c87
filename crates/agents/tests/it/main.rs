//! The curator as a whole: what it decides, case by case; what holds whatever it is given; and what
//! becomes of it in a real store.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the helpers of these tests lay out real folders, and fail where that fails"
)]

mod case;

mod rates;

mod review;

mod safety;

mod properties;

mod stored;

mod by_model;

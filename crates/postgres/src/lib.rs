//! The state of many owners in one PostgreSQL database, shared by any number of daemons.
//!
//! A [`Database`] is a pool of connections. [`Database::owner`] returns the [`OwnerState`] of one owner, which
//! implements [`HistoryStore`](state::HistoryStore) and [`TaskStore`](state::TaskStore).
//! [`OwnerState::root`] returns the files of a root that are rows, as a [`Backend`](store::backend::Backend). Every
//! statement names the owner, so no call reaches the rows of another one. A caller's token leads to an owner and a role
//! ([`Database::token_rights`]).
//!
//! Correctness rests on rows, unique indexes and transactions alone. Nothing uses sequences, triggers, advisory locks or
//! the default isolation level:
//!
//! - A transaction that writes locks the owner's row of `counters` first. So the writes of an owner follow each other,
//!   and change numbers have no gaps and are in the order of the commits.
//! - A lock is a row with a time limit. Each taking raises its fence, and each write names the fence of its holder: a
//!   daemon that lost the lock writes nothing.
//! - A transaction that the server aborts because of another one (SQLSTATE 40001, 40P01) is repeated as a whole.
//! - A call whose connection is lost returns [`StateError::Unreachable`](state::StateError::Unreachable); what it
//!   requested may have been done.
//!
//! Steps of tasks that a power cut may undo are committed without waiting for the disk. The log of the database has one
//! order, so a later durable commit makes earlier ones durable, too.

mod call_error;
mod database;
mod events;
mod history;
mod lease;
mod migrate;
mod notices;
mod outside_readers;
mod owner;
mod root;
mod row;
mod size;
mod tasks;
mod tokens;
mod transfer;

pub use database::{Database, DatabaseSettings, InvalidAddress, OpenError, OwnerLimits};
pub use owner::{OwnerState, UnfinishedLane};
pub use root::RowBackend;
pub use tokens::{InvalidOwnerName, OwnerName, TOKEN_PREFIX};
pub use transfer::{ImportError, OwnerImport, OwnerSnapshot};

//! The store as a whole, on real folders and a real state database.

//! Placeholder.

pub mod guard;

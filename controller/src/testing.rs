//! What tests of the whole process need.

pub(crate) mod api;

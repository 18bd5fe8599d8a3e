//! What tests of the whole process need.

pub(crate) mod api;
pub(crate) mod crowd;

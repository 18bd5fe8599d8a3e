//! The speaker.

pub mod args;
pub mod members;
pub mod metrics;
mod sys;

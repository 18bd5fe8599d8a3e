//! The speaker.

pub mod args;
pub mod layer2;
pub mod links;
pub mod members;
pub mod metrics;
mod sys;
#[cfg(test)]
mod testing;

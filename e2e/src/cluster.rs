//! The programs of the cluster: their command lines and configuration files.
//!
//! Everything in this module is pure: it says what to run and what to write, [`crate::up`] does it.

pub(crate) mod control_plane;
pub(crate) mod node;
pub(crate) mod others;

/// Program and arguments, as owned strings.
pub(crate) fn command_line(program: impl Into<String>, arguments: &[&str]) -> Vec<String> {
    std::iter::once(program.into()).chain(arguments.iter().map(ToString::to_string)).collect()
}

//! One module a command.

pub(crate) mod crds;
pub(crate) mod package;
pub(crate) mod rbac;
pub(crate) mod render;

//! The Kubernetes API of FerroLB.

//! What every kind of ours has in common.

/// Implements what Kubernetes clients need to know of a namespaced kind. Written by hand rather than
/// derived because `spec` is optional in several kinds: an object without one must still be read.
macro_rules! namespaced_kind {
    ($kind:ident, $version:literal, $plural:literal) => {
        crate::kind::namespaced_kind!($kind, crate::well_known::GROUP, $version, $plural);
    };
    ($kind:ident, $group:expr, $version:literal, $plural:literal) => {
        impl kube::core::Resource for $kind {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }
            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl Default for $kind {
            fn default() -> Self {
                Self {
                    types: kube::core::TypeMeta::resource::<Self>(),
                    metadata: Default::default(),
                    spec: Default::default(),
                    status: Default::default(),
                }
            }
        }
    };
}
pub(crate) use namespaced_kind;

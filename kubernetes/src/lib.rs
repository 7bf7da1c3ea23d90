//! Runs a scenario in parts on Kubernetes: typed objects, a client that applies them, Chaos Mesh's faults.
//!
//! Promised: every object is in the namespace that was named; what Chaos Mesh cannot do of a scenario is
//! refused before anything is made; what a run has made is found by its label and deleted at its end. Not
//! promised: that pods run side by side at the same speed, since a cluster's nodes are its own.
//!
//! | modules | what they are |
//! |---|---|
//! | [`spec`] | what is asked, and what is refused of it |
//! | [`objects`] | the objects of a spec, as types and as YAML |
//! | [`cluster`] | the API: applied, followed, deleted |
//! | [`packed_run`] | a run as lines of a pod's log, and back |
//! | [`chaos_mesh`], [`engine`] | faults in the words of Chaos Mesh, and as what carries them out |

pub mod chaos_mesh;
pub mod cluster;
pub mod engine;
pub mod objects;
pub mod packed_run;
mod servers;
pub mod spec;

// For callers that use the same API beside this crate.
pub use k8s_openapi;
pub use kube;

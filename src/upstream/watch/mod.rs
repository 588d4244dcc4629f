//! Change streams.
//!
//! Events come from the cluster with everything that Sundown has written. They are rewritten here, one by one: hidden fields
//! go, events that are about nothing else are left out, and a document that was looked up and has ended is null
//! ([`event`]). Time goes on while a stream is open, so the cluster cannot do that. The client's own stages must not see more
//! than the client may, so they run here, too, behind that ([`stages`]).
//!
//! A stream that can meet no rules is passed on as it is. If rules come up later, it ends with an error upon which drivers
//! resume it, and then it is rewritten.

mod event;
mod run;
mod scope;
mod stages;
mod streams;

pub use run::run;
pub use streams::OpenStreams;

//! Where an attempt may go: what an endpoint's URL must look like ([`TargetUrl`]), and which addresses may be dialled
//! ([`AddressPolicy`]). A URL is judged when it is set; the address of *every* connection is judged again when it is
//! dialled, names and literals alike, so that nothing between the two (DNS, redirects, numeric spellings) matters.

mod address;
mod url;

pub use address::{AddressPolicy, BlockReason, Verdict};
pub use url::{Host, MAX_URL_BYTES, Origin, Scheme, TargetUrl};

//! What the writer tells the engine after a commit. A hint may be lost; the rows are the truth.

use crate::domain::delivery::Waiting;
use crate::domain::ids::{DeliveryNo, EndpointNo};

/// New deliveries of one endpoint.
#[derive(Debug)]
pub struct Hint {
    pub endpoint: EndpointNo,
    /// The endpoint's newest delivery before these.
    pub after: DeliveryNo,
    pub deliveries: Vec<Waiting>,
}

/// Where hints go.
pub trait HintSink: Send + Sync {
    /// Called once per commit, on the writer's thread; must not block.
    fn committed(&self, hints: Vec<Hint>);
}

/// Nobody listens.
pub struct NoHints;

impl HintSink for NoHints {
    fn committed(&self, _: Vec<Hint>) {}
}

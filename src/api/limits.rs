//! The limits of the API, named; errors mention the names.

use std::ops::RangeInclusive;

/// Bytes of one event's `data`.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// What a request with one event may hold beside its `data`.
pub const ENVELOPE_BYTES: usize = 64 * 1024;
/// Bytes of a batch.
pub const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Events in a batch.
pub const BATCH_EVENTS: RangeInclusive<usize> = 1..=1_000;
/// Endpoints that an event may name.
pub const ENDPOINT_IDS: RangeInclusive<usize> = 1..=1_000;
/// Bytes of any other request.
pub const MAX_REQUEST_BYTES: usize = 256 * 1024;
/// Deliveries shown with an event, attempts shown with a delivery.
pub const EVENT_DELIVERIES: usize = 100;
pub const DELIVERY_ATTEMPTS: i64 = 100;
/// Characters of an endpoint's description and of a reason.
pub const MAX_DESCRIPTION: usize = 1_024;
pub const MAX_REASON: usize = 256;
/// Bytes of an endpoint's metadata as JSON.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;
/// Dead letters that one bulk requeue may mean, and how many unless it says.
pub const BULK_REQUEUE: RangeInclusive<u32> = 1..=10_000;
pub const BULK_REQUEUE_DEFAULT: u32 = 1_000;

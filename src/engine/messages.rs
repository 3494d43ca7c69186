//! What actors say to each other. Hints and pokes lie in a bounded tray ([`super::tray`]); what must arrive goes through
//! [`tell`].

use std::collections::HashMap;
use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::prelude::*;
use tokio::sync::oneshot;

use super::Live;
use crate::domain::content::Content;
use crate::domain::delivery::Waiting;
use crate::domain::dispatcher::{Loaded, OnTheWire, Spared};
use crate::domain::ids::{DeliveryNo, EndpointNo, EventNo};
use crate::store::Owned;
use crate::store::error::StoreError;
use crate::store::hint::Hint;
use crate::store::load::Needed;
use crate::store::record::Recorded;

/// Sends a message that must not be refused. Each kind of message sent this way is bounded by something else: attempts
/// in flight, requests being answered, one outstanding read or write. If the receiver is dead the message is lost, which
/// is right: whatever it told is found in the rows by the next incarnation.
#[allow(clippy::disallowed_methods)]
pub fn tell<M>(to: &Recipient<M>, message: M)
where
    M: Message + Send,
    M::Result: Send,
{
    to.do_send(message);
}

/// [`tell`] for an address.
#[allow(clippy::disallowed_methods)]
pub fn tell_actor<A, M>(to: &Addr<A>, message: M)
where
    M: Message + Send,
    M::Result: Send,
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
{
    to.do_send(message);
}

macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident $fields:tt $(-> $result:ty)?;)+) => {
        $(messages!(@one $(#[$meta])* $name $fields $(-> $result)?);)+
    };
    (@one $(#[$meta:meta])* $name:ident ()) => {
        $(#[$meta])* #[derive(Message)] #[rtype(result = "()")] pub struct $name;
    };
    (@one $(#[$meta:meta])* $name:ident ($($field:ty),+)) => {
        $(#[$meta])* #[derive(Message)] #[rtype(result = "()")] pub struct $name($(pub $field),+);
    };
    (@one $(#[$meta:meta])* $name:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        $(#[$meta])* #[derive(Message)] #[rtype(result = "()")] pub struct $name { $(pub $field: $type),+ }
    };
}

messages! {
    /// To an endpoint: see what there is to do.
    Turn ();
    /// To an endpoint: there is something in its tray.
    LookIntoTray ();
    /// To an endpoint: rows were changed behind its back.
    Refresh ();
    /// To an endpoint: attempts of it are over; what they came to lies in its [`Ends`](super::ends::Ends).
    AttemptsEnded ();
    /// To an endpoint: one of its attempts is older than a second.
    BecameSlow ();
    /// To an endpoint: events for attempts about to start, or why there are none.
    ContentsRead { asked: Vec<EventNo>, contents: Result<HashMap<EventNo, Arc<Content>>, StoreError> };
    /// To an endpoint: what the store said to a batch.
    BatchWritten (Result<Recorded, StoreError>);
    /// To an endpoint: deliveries were given up to their cut, but for these, which the store refused.
    Released (Vec<DeliveryNo>);
    /// To an endpoint: the beginnings of its lines.
    WindowRead (Result<Loaded, StoreError>);
    /// To an endpoint: how it stands in the store.
    EndpointRead (Result<Option<Box<Owned>>, StoreError>);
    /// To an endpoint: so many overdue attempts may start.
    Paced (usize);
    /// To an endpoint: the supervisor has (or has not) let it go.
    LetGo (bool);
    /// To an endpoint: start nothing more; answer when nothing is on the wire and all is recorded.
    DrainEndpoint (oneshot::Sender<()>);
    /// To an endpoint: keep this delivery from being attempted.
    LockDelivery { delivery: DeliveryNo, back: oneshot::Sender<Result<(), OnTheWire>> };
    /// To an endpoint: the lock's request is through.
    UnlockDelivery { delivery: DeliveryNo, waiting: Option<Waiting> };
    /// To an endpoint: a disable or delete is about to be committed.
    Freeze (oneshot::Sender<Vec<Spared>>);
    /// To an endpoint: the change that it was frozen for is committed, or failed.
    Thaw (oneshot::Sender<()>);
    /// To an endpoint: it was changed, or may have been.
    Changed (oneshot::Sender<()>);
    /// To an endpoint: how are you?
    AskLive (oneshot::Sender<Live>);

    /// To the supervisor: a commit's hints.
    Hints (Vec<Hint>);
    /// To the supervisor: what a sweep found.
    Swept { needed: Vec<Needed>, last: bool };
    /// To the supervisor: an endpoint's actor is gone; `last`: because its endpoint is.
    Died { endpoint: EndpointNo, incarnation: u64, last: bool };
    /// To the supervisor: may I go? `heard`: the number of the last message that came from you.
    AskLeave { endpoint: EndpointNo, incarnation: u64, heard: u64 };
    /// To the supervisor: an endpoint wants to start overdue attempts.
    WantPace { endpoint: EndpointNo, attempts: usize };
    /// To the supervisor: drain every endpoint; answer when all are drained.
    Drain (oneshot::Sender<()>);
}

/// To the supervisor: pass this on to the endpoint's actor, building it if need be.
#[derive(Message)]
#[rtype(result = "()")]
pub struct PassOn {
    pub endpoint: EndpointNo,
    pub message: Passed,
    /// If no actor is there: build one (true), or drop the message.
    pub build: bool,
}

/// What is passed on.
pub enum Passed {
    Lock(LockDelivery),
    Unlock(UnlockDelivery),
    Freeze(Freeze),
    Thaw(Thaw),
    Changed(Changed),
    Refresh,
    Live(AskLive),
}

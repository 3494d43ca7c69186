//! What an endpoint actor does with each message: tell the dispatcher, then take a turn.

use actix::prelude::*;

use super::super::Live;
use super::super::messages::*;
use super::{Brain, EndpointActor};
use crate::domain::dispatcher::OnTheWire;

/// Handlers that look around, tell the dispatcher something and take a turn.
macro_rules! hears {
    ($($message:ident $(as $from:ident)? => |$self:ident, $ctx:ident, $pattern:pat_param| $body:block)+) => {
        $(impl Handler<$message> for EndpointActor {
            type Result = ();

            fn handle(&mut self, message: $message, ctx: &mut Context<Self>) {
                let ($self, $ctx, $pattern) = (self, ctx, message);
                $($self.$from += 1;)?
                $self.look_around();
                $body
                $self.turn($ctx);
            }
        })+
    };
}

impl Handler<Turn> for EndpointActor {
    type Result = ();

    fn handle(&mut self, _: Turn, ctx: &mut Context<Self>) {
        self.queued_at_gate = false;
        self.look_around();
        self.turn(ctx);
        // It may have had no use for the room.
        self.env.gate.offer();
    }
}

hears! {
    BecameSlow => |_actor, _ctx, _| {}

    LookIntoTray => |_actor, _ctx, _| {}

    Refresh as heard => |actor, _ctx, _| {
        if let Some(dispatcher) = actor.dispatcher() {
            dispatcher.refresh();
        }
    }

    Paced as heard => |actor, _ctx, Paced(permits)| {
        if let Some(dispatcher) = actor.dispatcher() {
            dispatcher.paced(permits);
        }
    }

    AttemptsEnded => |actor, _ctx, _| {
        actor.ends.message_came();
    }

    ContentsRead => |actor, ctx, ContentsRead { asked, contents }| {
        actor.contents_read(asked, contents);
        actor.send_what_is_ready(ctx);
    }

    BatchWritten => |actor, _ctx, BatchWritten(written)| {
        let now = actor.env.clock.now();
        actor.written(written, now);
    }

    Released => |actor, _ctx, Released(refused)| {
        let now = actor.env.clock.now();
        if let Some(dispatcher) = actor.dispatcher() {
            dispatcher.released(refused, now);
        }
    }

    WindowRead => |actor, _ctx, WindowRead(rows)| {
        let now = actor.env.clock.now();
        if let Some(dispatcher) = actor.dispatcher() {
            match rows {
                Ok(rows) => dispatcher.loaded(rows),
                Err(error) => {
                    dispatcher.load_failed(now);
                    actor.complain("a queue could not be read", error);
                }
            }
        }
    }

    EndpointRead => |actor, ctx, EndpointRead(answer)| {
        let now = actor.env.clock.now();
        match answer {
            Ok(owned) => actor.endpoint_read(owned, ctx),
            Err(error) => actor.endpoint_unread(error, now, ctx),
        }
    }

    DrainEndpoint as heard => |actor, _ctx, DrainEndpoint(back)| {
        match &actor.brain {
            // Nothing was ever started.
            Brain::Asleep(_) => {
                actor.drained = true;
                let _ = back.send(());
            }
            Brain::Awake { .. } => actor.draining = Some(back),
        }
    }

    LockDelivery as heard => |actor, _ctx, LockDelivery { delivery, back }| {
        let answer = match &mut actor.brain {
            // Nothing is on the wire, but another request may hold it.
            Brain::Asleep(early) if early.locks.contains(&delivery) => Err(OnTheWire),
            Brain::Asleep(early) => {
                early.locks.push(delivery);
                Ok(())
            }
            Brain::Awake { dispatcher, .. } => dispatcher.lock(delivery),
        };
        let _ = back.send(answer);
    }

    UnlockDelivery as heard => |actor, _ctx, UnlockDelivery { delivery, waiting }| {
        match &mut actor.brain {
            Brain::Asleep(early) => early.locks.retain(|&no| no != delivery),
            Brain::Awake { dispatcher, .. } => dispatcher.unlock(delivery, waiting),
        }
    }

    Freeze as heard => |actor, _ctx, Freeze(back)| {
        let spared = match &mut actor.brain {
            Brain::Asleep(early) => {
                early.frozen += 1;
                Vec::new()
            }
            Brain::Awake { dispatcher, .. } => dispatcher.freeze(),
        };
        let _ = back.send(spared);
    }

    Thaw as heard => |actor, _ctx, Thaw(back)| {
        match &mut actor.brain {
            Brain::Asleep(early) => {
                early.frozen = early.frozen.saturating_sub(1);
                early.changed = true;
            }
            Brain::Awake { dispatcher, .. } => dispatcher.thaw(),
        }
        let _ = back.send(());
    }

    Changed as heard => |actor, _ctx, Changed(back)| {
        match &mut actor.brain {
            Brain::Asleep(early) => early.changed = true,
            Brain::Awake { dispatcher, .. } => dispatcher.changed(),
        }
        let _ = back.send(());
    }

    AskLive as heard => |actor, _ctx, AskLive(back)| {
        let now = actor.env.clock.now();
        let live = match actor.dispatcher() {
            None => Live::default(),
            Some(dispatcher) => Live {
                in_flight: dispatcher.in_flight(),
                on_the_wire: dispatcher.on_the_wire(),
                next_start: dispatcher.next_start(now),
                narrowed: dispatcher.is_narrowed(),
            },
        };
        let _ = back.send(live);
    }

    LetGo => |actor, ctx, LetGo(yes)| {
        actor.asked_to_leave = false;
        actor.idle_since = None;
        if yes {
            ctx.stop();
        }
    }
}

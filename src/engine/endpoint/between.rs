//! Between two turns of an endpoint actor: what it finds when it is woken, and what it leaves behind to be woken by.

use std::time::Duration;

use actix::prelude::*;

use super::super::messages::*;
use super::super::tray::{Mood, Note, Taken};
use super::{Brain, EndpointActor};
use crate::domain::time::{Span, Timestamp};

/// An actor without work stays so long before it asks to go: real time.
const LINGER: Span = Span::from_secs(15);
/// It goes only if its next work is further away: the sweeper looks ahead less far.
const FAR: Span = Span::from_secs(60);

impl EndpointActor {
    /// Tells the dispatcher which attempts have ended and what lies in the tray: whatever wakes the actor, this comes first.
    /// One that sleeps will read its rows anyhow, and has made no attempt.
    pub(super) fn look_around(&mut self) {
        self.ends.take().into_iter().for_each(|ended| self.ended(ended));
        let Taken { notes, lost, poked, count } = self.tray.take();
        self.heard += count;
        let Some(dispatcher) = self.dispatcher() else { return };
        if lost {
            dispatcher.refresh();
        }
        for note in notes {
            match note {
                Note::Hint(hint) => dispatcher.hint(hint.after, hint.deliveries),
                Note::Passed { after, last } => dispatcher.passed(after, last),
            }
        }
        poked.into_iter().for_each(|newest| dispatcher.poke(newest));
    }

    /// After a turn: the timer, the gate, the drain, the wish to leave.
    pub(super) fn settle(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        let Brain::Awake { dispatcher, .. } = &mut self.brain else { return };
        self.unrecorded.set(dispatcher.unrecorded());
        let full = self.env.gate.room(self.ends.has_slow()) == 0;
        if dispatcher.is_drained()
            && let Some(back) = self.draining.take()
        {
            self.drained = true;
            let _ = back.send(());
        }
        let due = dispatcher.next_start(now);
        let waits = full && !self.drained && self.draining.is_none() && dispatcher.would_start(now);
        if waits && !std::mem::replace(&mut self.queued_at_gate, true) {
            self.env.gate.wait(ctx.address().recipient(), self.ends.has_slow());
        }
        let far = |at: Timestamp| at > now + self.env.clock.engine_span(FAR);
        let rests = dispatcher.is_idle() && due.is_none_or(far) || dispatcher.is_gone();
        let leave_at = if rests {
            let since = *self.idle_since.get_or_insert(now);
            Some(since + self.env.clock.engine_span(LINGER))
        } else {
            self.idle_since = None;
            None
        };
        if leave_at.is_some_and(|at| at <= now) && !self.asked_to_leave {
            self.asked_to_leave = true;
            let message =
                AskLeave { endpoint: self.endpoint, incarnation: self.obituary.incarnation, heard: self.heard };
            tell_actor(&self.supervisor, message);
        }
        let wake_at = dispatcher.wake_at(now);
        // Who waits at the gate or drains is looked at when that changes; a new delivery does not change it.
        let mood =
            Mood { patient: dispatcher.is_patient(wake_at), bare: dispatcher.is_bare(), full_at: dispatcher.full_at() };
        if self.tray.leave(mood) {
            tell_actor(&ctx.address(), LookIntoTray);
        }
        let wake_at = wake_at.into_iter().chain(leave_at.filter(|&at| at > now)).min();
        self.arm(wake_at, ctx);
    }

    /// The one timer. Re-armed only when its instant changes.
    fn arm(&mut self, wake_at: Option<Timestamp>, ctx: &mut Context<Self>) {
        if self.timer.as_ref().map(|timer| timer.0) == wake_at {
            return;
        }
        if let Some((_, handle)) = self.timer.take() {
            ctx.cancel_future(handle);
        }
        if let Some(at) = wake_at {
            // A sleep of years is a sleep of a day, looked at again.
            let sleep = self.env.clock.real_until(at).min(Duration::from_secs(86_400));
            #[allow(clippy::disallowed_methods)] // the one re-arm
            let handle = ctx.run_later(sleep, |actor, ctx| {
                actor.timer = None;
                actor.look_around();
                actor.turn(ctx);
            });
            self.timer = Some((at, handle));
        }
    }
}

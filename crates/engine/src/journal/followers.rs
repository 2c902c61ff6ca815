//! Those who follow: replicas, from their first question to the day they leave.

use std::fmt;
use std::sync::Arc;

use tollgate_containers::number;
use tollgate_limiter::Timestamp;

use super::{BLOCK_OVERHEAD, State};
use crate::Engine;
use crate::call::Call;

/// A connection that follows.
pub trait Replica: fmt::Debug + Send + Sync {
    /// CLIENT ID.
    fn id(&self) -> u64;
    /// Queues bytes for it, behind all that is queued. Never waits; one that does not read is disconnected.
    fn send(&self, bytes: &Arc<[u8]>);
    /// It knows rate limiters: it is sent their state, which Redis has no form for.
    fn knows_limiters(&self) -> bool;
    /// It has left.
    fn is_gone(&self) -> bool;
    /// It is Valkey 9 or later, which reads hashes whose fields expire in its own form alone.
    fn is_valkey(&self) -> bool;
    /// Disconnects it.
    fn disconnect(&self, why: Parting);
}

/// Why a replica is disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// More waits for it than it may leave unread.
    Overflow,
    /// It has said nothing for too long.
    Silence,
    /// The history it follows is another one now, or none; it is to come back.
    NewHistory,
    /// It could not be sent the data.
    Failed,
}

/// How a replica begins to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncStart {
    /// It was sent what it had missed, and follows.
    Continued,
    /// It needs all data.
    Full,
}

/// One replica as INFO and ROLE show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerFacts {
    /// CLIENT ID.
    pub id: u64,
    /// `wait_bgsave` while its data are written, `send_bulk` while they are sent, then `online`.
    pub state: &'static str,
    /// Bytes of the journal that it says to have.
    pub acked: u64,
    /// Seconds since it has said so.
    pub lag_secs: i64,
}

/// What a replica is sent of the journal.
pub(super) enum Stage {
    /// Nothing: what it is to be sent first are the data of a moment that is still to come.
    Waiting(Waiting),
    /// Nothing yet: the data come first, which the snapshot `sync` writes. What is appended meanwhile waits here.
    Data {
        sync: u64,
        queued: Vec<Arc<[u8]>>,
        bytes: usize,
    },
    /// Everything at once.
    Online,
}

/// For what a replica waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Since when, in Unix milliseconds.
    pub(super) since_ms: i64,
    /// Others may be waited for.
    pub(super) is_patient: bool,
    /// The snapshot that is for it alone; `None`: any that it can share.
    pub(super) alone: Option<u64>,
}

pub(super) struct Follower {
    pub(super) to: Arc<dyn Replica>,
    pub(super) stage: Stage,
    pub(super) acked: u64,
    /// When it last said how far it is, in Unix milliseconds.
    acked_ms: i64,
    /// It says so: one that came by SYNC does not.
    pub(super) acks: bool,
    /// Bytes that may wait for it while it is sent the data; 0 = any number.
    pub(super) most: u64,
    /// The data are on their way.
    pub(super) greeted: bool,
}

impl Follower {
    pub(super) fn new(
        to: Arc<dyn Replica>,
        stage: Stage,
        acked: u64,
        acks: bool,
        now_ms: i64,
    ) -> Follower {
        Follower {
            to,
            stage,
            acked,
            acked_ms: now_ms,
            acks,
            most: 0,
            greeted: false,
        }
    }

    pub(super) fn disconnect(&self, why: Parting) {
        self.to.disconnect(why);
    }

    /// Seconds since it said how far it is.
    fn lag_secs(&self, now: Timestamp) -> i64 {
        (now.millis() - self.acked_ms).max(0) / 1_000
    }

    pub(super) fn is_online(&self) -> bool {
        matches!(self.stage, Stage::Online)
    }

    /// Whether the journal is of any use to it: not as long as it waits for the moment of its data.
    pub(super) fn follows(&self) -> bool {
        !matches!(self.stage, Stage::Waiting(_))
    }

    /// Bytes of memory that wait for it until it has the data.
    pub(super) fn waiting(&self) -> usize {
        match &self.stage {
            Stage::Data { queued, bytes, .. } if !queued.is_empty() => {
                bytes + queued.len() * BLOCK_OVERHEAD + queued.capacity() * size_of::<Arc<[u8]>>()
            }
            _ => 0,
        }
    }

    /// Takes what was appended.
    pub(super) fn take(&mut self, block: &Arc<[u8]>) {
        match &mut self.stage {
            Stage::Waiting(_) => {}
            Stage::Online => self.to.send(block),
            Stage::Data { queued, bytes, .. } => {
                *bytes += block.len();
                if self.most > 0 && *bytes as u64 >= self.most {
                    *queued = Vec::new();
                    return self.to.disconnect(Parting::Overflow);
                }
                queued.push(Arc::clone(block));
            }
        }
    }
}

impl State {
    /// The first sign of life comes a whole period after the first of them.
    pub(super) fn follow(&mut self, follower: Follower, now_ms: i64) {
        if self.followers.is_empty() {
            self.pinged_ms = now_ms;
        }
        self.followers.push(follower);
    }

    /// Whether what is appended now reaches a replica.
    pub(super) fn is_followed(&self) -> bool {
        self.followers.iter().any(Follower::follows)
    }

    pub(super) fn follower(&mut self, id: u64) -> Option<&mut Follower> {
        self.followers
            .iter_mut()
            .find(|follower| follower.to.id() == id)
    }
}

impl Engine {
    /// Names the history of the data, and sets how many bytes are kept for replicas that come back.
    pub fn name_history(&self, id: &str) {
        id.clone_into(&mut self.journal.lock().id);
    }

    /// `repl-backlog-size`.
    pub fn keep_backlog(&self, bytes: usize) {
        let mut state = self.journal.lock();
        state.backlog.most = bytes;
        state.backlog.trim();
    }

    /// Sends replicas a command that was not run here, whatever it is.
    pub fn replicate(&self, words: &[&[u8]]) {
        let mut state = self.journal.lock();
        if state.open && !state.lineage.relays {
            state.append_command(words);
        }
    }

    /// What INFO says of the journal.
    pub fn journal_facts(&self) -> super::JournalFacts {
        self.journal.facts()
    }

    /// All replicas, in the order in which they came.
    pub fn followers(&self, now: Timestamp) -> Vec<FollowerFacts> {
        let state = self.journal.lock();
        let facts = |follower: &Follower| FollowerFacts {
            id: follower.to.id(),
            state: match follower.stage {
                Stage::Online => "online",
                Stage::Data { .. } if follower.greeted => "send_bulk",
                Stage::Data { .. } | Stage::Waiting(_) => "wait_bgsave",
            },
            acked: follower.acked,
            lag_secs: follower.lag_secs(now),
        };
        state.followers.iter().map(facts).collect()
    }

    /// PSYNC: a replica has the history `id` up to the byte before `next` (counted from 1). If the rest is kept, it is sent
    /// that and follows. `?`: it has nothing.
    pub fn resume(&self, to: Arc<dyn Replica>, id: &[u8], next: i64, now: Timestamp) -> SyncStart {
        let mut state = self.journal.lock();
        let first = state.offset - state.backlog.bytes as u64 + 1;
        let named = id.eq_ignore_ascii_case(state.id.as_bytes());
        let known = state.open && (named || state.lineage.knows(id, next));
        let known = known && (!to.knows_limiters() || state.has_limiters_from(next));
        let wanted = u64::try_from(next)
            .ok()
            .filter(|next| known && (first..=state.offset + 1).contains(next));
        let Some(missed) = wanted.and_then(|next| state.backlog.tail(state.offset + 1 - next))
        else {
            state.refused_partial_syncs += u64::from(id != b"?");
            return SyncStart::Full;
        };
        state.partial_syncs += 1;
        state.alone_since_ms = None;
        let greeting = format!("+CONTINUE {}\r\n", state.id).into_bytes();
        to.send(&greeting.into());
        if !missed.is_empty() {
            to.send(&missed);
        }
        let acked = state.offset - missed.len() as u64;
        let follower = Follower::new(to, Stage::Online, acked, true, now.millis());
        state.follow(follower, now.millis());
        SyncStart::Continued
    }

    /// A connection has gone; if it followed, it does not any more.
    pub fn unfollow(&self, id: u64, now: Timestamp) {
        let mut state = self.journal.lock();
        let before = state.is_followed();
        state.followers.retain(|follower| follower.to.id() != id);
        if before && !state.is_followed() {
            state.alone_since_ms = Some(now.millis());
        }
    }

    /// WAIT or WAITAOF has begun to wait; the number of replicas is the last word but one, and of local files, of which
    /// only WAITAOF speaks, the one before.
    pub(crate) fn wait_for_replicas(&self, call: &Call<'_>) {
        let [_, local @ .., replicas, _] = call.args else {
            return;
        };
        let replicas = number::parse_i64(replicas).and_then(|n| usize::try_from(n).ok());
        let local = local.first().is_some_and(|local| **local != *b"0");
        self.journal
            .begin_wait(call.client, replicas.unwrap_or(usize::MAX), local);
        // It may have happened since it was looked at.
        self.answer_waits();
    }

    /// The append-only file is further on the disk.
    pub(super) fn answer_local_waits(&self) {
        if !self.journal.lock().waits.is_empty() {
            self.answer_waits();
        }
    }

    /// Answers those whose wait is over.
    fn answer_waits(&self) {
        let mut state = self.journal.lock();
        let mut over = Vec::new();
        for wait in &state.waits {
            let acknowledged = state.acknowledged(wait.offset);
            let log = &self.journal.log;
            let is_local = wait
                .position
                .is_none_or(|position| log.has_synced(position) != Some(false));
            if acknowledged >= wait.replicas && is_local {
                let local = log.has_synced(wait.began) == Some(true);
                over.push((wait.client, acknowledged, local));
            }
        }
        state
            .waits
            .retain(|wait| !over.iter().any(|it| it.0 == wait.client));
        drop(state);
        for (client, acknowledged, local) in over {
            self.answer_waiter(client, acknowledged, local);
        }
    }

    /// REPLCONF ACK: the replica has so many bytes of the journal.
    pub fn acknowledge(&self, id: u64, offset: u64, now: Timestamp) {
        let mut state = self.journal.lock();
        if let Some(follower) = state.follower(id) {
            follower.acked = follower.acked.max(offset);
            follower.acked_ms = now.millis();
        }
        drop(state);
        self.answer_waits();
    }

    /// To be called about once a second: signs of life every `ping_ms`, the end of replicas that were silent for
    /// `silence_ms`, and after `keep_ms` without a replica the end of the journal, whose next history is called `next_id`.
    pub fn tend_replicas(
        &self,
        now: Timestamp,
        (ping_ms, silence_ms, keep_ms): (i64, i64, i64),
        next_id: impl FnOnce() -> Option<String>,
    ) {
        let now_ms = now.millis();
        let mut state = self.journal.lock();
        let relays = state.lineage.relays;
        if !relays && state.is_followed() && now_ms - state.pinged_ms >= ping_ms {
            state.pinged_ms = now_ms;
            state.append_command(&[b"PING"]);
        }
        for follower in &state.followers {
            match follower.stage {
                // No part of the journal: a replica that waits for its data passes over it.
                Stage::Data { .. } if follower.greeted => {}
                Stage::Data { .. } | Stage::Waiting(_) => follower.to.send(&Arc::from(&b"\n"[..])),
                Stage::Online => {
                    if follower.acks && now_ms - follower.acked_ms > silence_ms {
                        follower.to.disconnect(Parting::Silence);
                    }
                }
            }
        }
        // Whoever is about to open it is waiting for the shards.
        let Some(_closing) = self.journal.opening.try_lock() else {
            return;
        };
        let over = |since: i64| keep_ms > 0 && now_ms - since > keep_ms;
        if relays || !state.open || !state.alone_since_ms.is_some_and(over) {
            return;
        }
        // What changes from now on is not counted, so nobody may go on from here.
        let Some(next_id) = next_id() else { return };
        state.id = next_id;
        state.lineage.forget();
        state.forget_limiters();
        self.journal.end_limiters();
        state.open = false;
        state.alone_since_ms = None;
        state.backlog.blocks = std::collections::VecDeque::new();
        state.backlog.bytes = 0;
        drop(state);
        self.follow_journal();
    }

    /// Replicas that have been heard of within `secs`.
    pub fn good_replicas(&self, secs: i64, now: Timestamp) -> usize {
        let state = self.journal.lock();
        let good = |it: &&Follower| it.is_online() && !it.to.is_gone() && it.lag_secs(now) <= secs;
        state.followers.iter().filter(good).count()
    }
}

//! Rate limiters as values of their own type.
//!
//! A limiter's state is a number or a time in the entry itself, and the entry expires when the
//! limiter is back in its initial state, so an idle limiter costs nothing.

mod ban;
mod lease;
mod others;
mod reserve;
mod rule;
mod state;
mod take;
mod top;

use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{Acl, Arity, Cx, Family, Flags, Group, Handler, Reply, Row, Run};
use tollgate_keyspace::Key;
use tollgate_limiter::{Cost, Decision};

pub(super) static FAMILY: Family = Family {
    name: "Rate limiting",
    about: "Native rate limiters, each decision one atomic command. [limiters.md](limiters.md) has arguments, replies and errors.",
    rows: &[
        limiter("CL.THROTTLE", at_least(2), others::cl_throttle)
            .takes("key max_burst count period [quantity]")
            .docs(
                "Decides by GCRA with the arguments and replies of redis-cell.",
                "0.1.0",
                "O(1)",
            ),
        limiter("GCRA", at_least(5), others::gcra)
            .takes("key max-burst tokens-per-period period [TOKENS count]")
            .docs(
                "Decides by GCRA with the arguments and replies of the command that was not shipped in Redis 8.8.",
                "0.1.0",
                "O(1)",
            ),
        limiter("RL.ACQUIRE", at_least(5), lease::acquire)
            .takes("key id limit ttl-ms [COST cost] [PEEK]")
            .docs(
                "Takes or renews a lease under a concurrency limit.",
                "0.1.0",
                "O(log N) where N is the number of leases on the key",
            ),
        limiter("RL.BAN", exactly(3), ban::ban)
            .takes("key duration-ms")
            .docs(
                "Denies every request for a time. What was counted before still counts afterwards.",
                "0.1.0",
                "O(1); O(N) where the limiter keeps N requests, leases or reservations",
            ),
        limiter("RL.CANCEL", exactly(3), reserve::cancel)
            .takes("key id")
            .docs(
                "Cancels a reservation and gives back all its units.",
                "0.1.0",
                "O(log N) where N is the number of reservations on the key; O(N) where a bucket gets units back",
            ),
        limiter("RL.COMMIT", exactly(4), reserve::commit)
            .takes("key id actual-cost")
            .docs(
                "Ends a reservation with its actual cost and gives back the rest.",
                "0.1.0",
                "O(log N) where N is the number of reservations on the key; O(N) where a bucket gets units back",
            ),
        row(
            "RL.INSPECT",
            exactly(2),
            Flags::READONLY.or(Flags::FAST),
            Run::Keys(ban::inspect),
        )
        .acl(Group::RateLimit, Acl::RATELIMIT)
        .keys(const { &[KeySpec::at(1, KeyFlags::RO.or(KeyFlags::ACCESS))] })
        .takes("key")
        .docs(
            "Returns the state of a limiter; for a hot key also the units that threads of the service have taken in advance (`leased`).",
            "0.1.0",
            "O(1)",
        ),
        limiter("RL.LEASE", at_least(7), take::lease)
            .takes("key algorithm limit period [option ...] COUNT count")
            .docs(
                "Takes up to `count` units in advance, from a bucket at most half of its burst. The reply ends with the milliseconds within which they may be spent.",
                "0.1.0",
                "O(1)",
            ),
        limiter("RL.MTAKE", at_least(6), take::mtake)
            .keys(
                const {
                    &[KeySpec::counted(
                        1,
                        KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
                    )]
                },
            )
            .takes("numkeys key [key ...] algorithm limit period [option ...] [algorithm limit period [option ...] ...]")
            .docs(
                "Takes from several limiters if all of them have enough left, or else from none.",
                "0.1.0",
                "O(N) where N is the number of limiters",
            ),
        limiter("RL.REFUND", at_least(5), take::refund)
            .takes("key algorithm limit period [option ...] [COST cost] [TAKEN unix-ms]")
            .docs(
                "Gives back units that were taken now or, as far as they still count, at an earlier time.",
                "0.1.0",
                "O(1)",
            ),
        limiter("RL.RELEASE", exactly(3), lease::release)
            .takes("key id")
            .docs(
                "Releases a lease.",
                "0.1.0",
                "O(log N) where N is the number of leases on the key",
            ),
        limiter("RL.RESERVE", at_least(7), reserve::reserve)
            .takes("key id ttl-ms algorithm limit period [option ...] [COST cost]")
            .docs(
                "Reserves units for a request whose actual cost is known later.",
                "0.1.0",
                "O(log N) where N is the number of reservations on the key",
            ),
        row(
            "RL.RESET",
            at_least(2),
            Flags::WRITE.or(Flags::FAST),
            Run::Keys(ban::reset),
        )
        .acl(Group::RateLimit, Acl::RATELIMIT)
        .keys(const { &[KeySpec::every(1, KeyFlags::RM.or(KeyFlags::DELETE))] })
        .takes("key [key ...]")
        .docs(
            "Resets limiters to their initial state.",
            "0.1.0",
            "O(N) where N is the number of keys",
        ),
        limiter("RL.TAKE", at_least(5), take::take)
            .takes("key algorithm limit period [option ...] [COST cost] [PEEK]")
            .docs(
                "Takes units from a limiter if it has enough left.",
                "0.1.0",
                "O(1)",
            ),
        limiter("RL.THROTTLE", at_least(5), others::rl_throttle)
            .takes("key max_burst count period [quantity]")
            .docs(
                "Decides by GCRA with the arguments and replies of redis-cell, and errors of its own.",
                "0.1.0",
                "O(1)",
            ),
        row(
            "RL.TOP",
            at_least(1),
            Flags::READONLY,
            Run::Keyspace(top::top),
        )
        .acl(Group::RateLimit, Acl::RATELIMIT.or(Acl::KEYSPACE).or(Acl::DANGEROUS))
        .takes("[count] [BY <TOTAL | ALLOWED | DENIED>] [RESET]")
        .docs(
            "Returns the most requested keys: how often each was allowed and denied, and by how much that may be too high. After 1,024 decisions in a shard, or when it has more keys than counters, about one decision in 16 is counted as 16.",
            "0.1.0",
            "O(N) where N is the number of keys that are counted, a few thousand in all",
        )
        .tips(&["request_policy:all_shards", "nondeterministic_output"]),
        row(
            "RL.UNBAN",
            exactly(2),
            Flags::WRITE.or(Flags::FAST),
            Run::Keys(ban::unban),
        )
        .acl(Group::RateLimit, Acl::RATELIMIT)
        .keys(const { &[KeySpec::at(1, KeyFlags::RM.or(KeyFlags::DELETE))] })
        .takes("key")
        .docs(
            "Lifts a ban; the limiter goes on from what was counted before it.",
            "0.1.0",
            "O(1); O(N) where the limiter keeps N requests, leases or reservations",
        ),
        limiter("THROTTLE", at_least(5), others::throttle)
            .takes("key max_burst count_per_period period [quantity]")
            .docs(
                "Decides by GCRA with the arguments and replies of throttlecrab.",
                "0.1.0",
                "O(1)",
            ),
    ],
};

const fn limiter(name: &'static str, arity: Arity, run: Handler) -> Row {
    let flags = Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST);
    row(name, arity, flags, Run::Keys(run))
        .acl(Group::RateLimit, Acl::RATELIMIT)
        .keys(
            const {
                &[KeySpec::at(
                    1,
                    KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE),
                )]
            },
        )
}

/// Counts a decision for RL.TOP. What costs nothing is a look and no decision.
#[inline]
fn tally(cx: &mut Cx<'_>, key: Key<'_>, cost: Cost, allowed: bool) {
    if cost.0 > 0 && cx.limits.limiter_top() != 0 {
        cx.shards.of(key).decided(cx.db, key, allowed);
    }
}

/// The five integers of a decision: allowed, limit, remaining, and two spans in milliseconds.
fn reply(cx: &mut Cx<'_>, decision: &Decision) -> Reply {
    let out = &mut cx.out;
    out.array(5);
    five(out, decision);
    Reply::Written
}

fn five(out: &mut tollgate_wire::resp::ReplyBuf, decision: &Decision) {
    out.int(i64::from(decision.allowed));
    out.int(units(decision.limit));
    out.int(units(decision.remaining));
    out.int(decision.retry_after_ms());
    out.int(decision.reset_after_ms());
}

/// Units as a reply can hold them.
fn units(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

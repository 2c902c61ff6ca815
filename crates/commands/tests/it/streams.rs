//! Streams with consumer groups against a model that keeps everything in plain maps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::world::World;

type Id = (u64, u64);

const GROUPS: [&str; 2] = ["g", "h"];
const CONSUMERS: [&str; 3] = ["ann", "bob", "cleo"];
const NO_KEY: &str = "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
                      MKSTREAM option to create an empty stream automatically.|";

#[derive(Debug, Clone)]
enum Op {
    Add(Id),
    AddIn(u64),
    AddTrimmed(Id, usize),
    Trim(usize),
    TrimBelow(Id),
    Del(Vec<Id>),
    DelKey,
    Create(usize, Option<Id>, bool),
    Destroy(usize),
    SetId(usize, Id),
    AddConsumer(usize, usize),
    DelConsumer(usize, usize),
    ReadNew(usize, usize, usize, bool),
    ReadOwn(usize, usize, Id, usize),
    Ack(usize, Vec<Id>),
    Claim(usize, usize, u64, Vec<Id>, bool),
    AutoClaim(usize, usize, u64, Id, usize, bool),
    Pending(usize, u64, Id, Id, usize, Option<usize>),
    Range(Id, Id, bool),
    Pass(u64),
}

fn id() -> impl Strategy<Value = Id> {
    (1..12_u64, 0..3_u64)
}

fn op() -> impl Strategy<Value = Op> {
    let group = || 0..GROUPS.len();
    let consumer = || 0..CONSUMERS.len();
    let ids = || prop::collection::vec(id(), 1..4);
    prop_oneof![
        6 => id().prop_map(Op::Add),
        3 => (1..12_u64).prop_map(Op::AddIn),
        1 => (id(), 0..4_usize).prop_map(|(id, len)| Op::AddTrimmed(id, len)),
        1 => (0..4_usize).prop_map(Op::Trim),
        1 => id().prop_map(Op::TrimBelow),
        2 => ids().prop_map(Op::Del),
        1 => Just(Op::DelKey),
        4 => (group(), prop::option::of(id()), any::<bool>()).prop_map(|(g, id, make)| Op::Create(g, id, make)),
        1 => group().prop_map(Op::Destroy),
        1 => (group(), id()).prop_map(|(g, id)| Op::SetId(g, id)),
        1 => (group(), consumer()).prop_map(|(g, c)| Op::AddConsumer(g, c)),
        1 => (group(), consumer()).prop_map(|(g, c)| Op::DelConsumer(g, c)),
        6 => (group(), consumer(), 1..4_usize, prop::bool::weighted(0.1)).prop_map(|(g, c, n, no)| Op::ReadNew(g, c, n, no)),
        2 => (group(), consumer(), id(), 1..4_usize).prop_map(|(g, c, id, n)| Op::ReadOwn(g, c, id, n)),
        2 => (group(), ids()).prop_map(|(g, ids)| Op::Ack(g, ids)),
        3 => (group(), consumer(), 0..4_u64, ids(), any::<bool>()).prop_map(|(g, c, idle, ids, just)| Op::Claim(g, c, idle, ids, just)),
        3 => (group(), consumer(), 0..4_u64, id(), 1..4_usize, any::<bool>())
            .prop_map(|(g, c, idle, from, n, just)| Op::AutoClaim(g, c, idle, from, n, just)),
        2 => (group(), 0..4_u64, id(), id(), 1..5_usize, prop::option::of(consumer()))
            .prop_map(|(g, idle, from, to, n, c)| Op::Pending(g, idle, from, to, n, c)),
        1 => (id(), id(), any::<bool>()).prop_map(|(from, to, back)| Op::Range(from, to, back)),
        3 => (1..4_u64).prop_map(Op::Pass),
    ]
}

fn show(id: Id) -> String {
    format!("{}-{}", id.0, id.1)
}

fn show_all(ids: &[Id]) -> String {
    let ids: Vec<String> = ids.iter().copied().map(show).collect();
    ids.join(" ")
}

fn bulk(text: &str) -> String {
    format!("${}|{text}|", text.len())
}

fn array(items: &[String]) -> String {
    format!("*{}|{}", items.len(), items.concat())
}

fn int(number: u64) -> String {
    format!(":{number}|")
}

#[derive(Debug)]
struct Pending {
    consumer: usize,
    at: u64,
    count: u64,
}

#[derive(Debug, Default)]
struct Group {
    last: Id,
    pending: BTreeMap<Id, Pending>,
    consumers: Vec<usize>,
}

impl Group {
    fn meet(&mut self, consumer: usize) -> u64 {
        let is_new = !self.consumers.contains(&consumer);
        if is_new {
            self.consumers.push(consumer);
        }
        is_new.into()
    }

    fn read_new(
        &mut self,
        stream: &Stream,
        who: usize,
        most: usize,
        keep: bool,
        now: u64,
    ) -> String {
        let after = self.last;
        let new = stream.entries.keys().copied().filter(|id| *id > after);
        let new: Vec<Id> = new.take(most).collect();
        let Some(last) = new.last() else {
            return "*-1|".to_owned();
        };
        self.last = *last;
        self.meet(who);
        for id in new.iter().filter(|_| keep) {
            let pending = Pending {
                consumer: who,
                at: now,
                count: 1,
            };
            self.pending.insert(*id, pending);
        }
        array(&[array(&[bulk("s"), stream.all(new)])])
    }

    fn read_own(
        &mut self,
        stream: &Stream,
        who: usize,
        after: Id,
        most: usize,
        now: u64,
    ) -> String {
        self.meet(who);
        let own = self.of(who).into_iter().filter(|id| *id > after);
        let own: Vec<Id> = own.take(most).collect();
        for id in own.iter().filter(|id| stream.entries.contains_key(id)) {
            let pending = self.pending.get_mut(id).expect("it is pending");
            (pending.at, pending.count) = (now, pending.count + 1);
        }
        array(&[array(&[bulk("s"), stream.all(own)])])
    }

    /// Whether the consumer has taken the entry over; one that is gone from the stream is pending no more.
    fn claim(
        &mut self,
        stream: &Stream,
        id: Id,
        who: usize,
        idle: u64,
        just: bool,
        now: u64,
    ) -> bool {
        if !stream.entries.contains_key(&id) {
            self.pending.remove(&id);
            return false;
        }
        let Some(pending) = self.pending.get_mut(&id) else {
            return false;
        };
        if now - pending.at < idle {
            return false;
        }
        (pending.consumer, pending.at) = (who, now);
        pending.count += u64::from(!just);
        self.meet(who);
        true
    }

    fn claim_from(
        &mut self,
        stream: &Stream,
        from: Id,
        most: usize,
        how: (usize, u64, bool),
        now: u64,
    ) -> String {
        let (who, idle, just) = how;
        let (mut taken, mut gone, mut next) = (Vec::new(), Vec::new(), (0, 0));
        let ids: Vec<Id> = self.pending.range(from..).map(|(id, _)| *id).collect();
        for (looks, id) in ids.into_iter().enumerate() {
            if looks == most * 10 || taken.len() + gone.len() == most {
                next = id;
                break;
            }
            if self.claim(stream, id, who, idle, just, now) {
                taken.push(id);
            } else if !self.pending.contains_key(&id) {
                gone.push(id);
            }
        }
        let gone: Vec<String> = gone.iter().map(|id| bulk(&show(*id))).collect();
        let taken = claimed(stream, &taken, just);
        array(&[bulk(&show(next)), taken, array(&gone)])
    }

    fn of(&self, consumer: usize) -> Vec<Id> {
        let own = |(id, pending): (&Id, &Pending)| (pending.consumer == consumer).then_some(*id);
        self.pending.iter().filter_map(own).collect()
    }
}

#[derive(Debug, Default)]
struct Stream {
    entries: BTreeMap<Id, usize>,
    last: Id,
    groups: BTreeMap<usize, Group>,
}

impl Stream {
    fn entry(&self, id: Id) -> String {
        let value = self.entries.get(&id).map(|value| value.to_string());
        let fields = value.map_or("*-1|".to_owned(), |value| array(&[bulk("f"), bulk(&value)]));
        array(&[bulk(&show(id)), fields])
    }

    fn all(&self, ids: impl IntoIterator<Item = Id>) -> String {
        let entries: Vec<String> = ids.into_iter().map(|id| self.entry(id)).collect();
        array(&entries)
    }

    fn add(&mut self, id: Id, value: usize) -> String {
        if id <= self.last {
            return "-ERR The ID specified in XADD is equal or smaller than the target stream top item|".to_owned();
        }
        self.last = id;
        self.entries.insert(id, value);
        bulk(&show(id))
    }

    fn trim(&mut self, goes: impl Fn(Id, usize) -> bool) -> u64 {
        let mut gone = 0;
        while let Some((&id, _)) = self.entries.first_key_value()
            && goes(id, self.entries.len())
        {
            self.entries.remove(&id);
            gone += 1;
        }
        gone
    }
}

#[derive(Debug, Default)]
struct Model {
    stream: Option<Stream>,
    now: u64,
    added: usize,
}

impl Model {
    fn line(&self, op: &Op) -> String {
        let (g, c) = (|at: &usize| GROUPS[*at], |at: &usize| CONSUMERS[*at]);
        let just = |just: &bool| if *just { " JUSTID" } else { "" };
        match op {
            Op::Add(id) => format!("XADD s {} f {}", show(*id), self.added),
            Op::AddIn(ms) => format!("XADD s {ms}-* f {}", self.added),
            Op::AddTrimmed(id, len) => {
                format!("XADD s MAXLEN {len} {} f {}", show(*id), self.added)
            }
            Op::Trim(len) => format!("XTRIM s MAXLEN {len}"),
            Op::TrimBelow(id) => format!("XTRIM s MINID {}", show(*id)),
            Op::Del(ids) => format!("XDEL s {}", show_all(ids)),
            Op::DelKey => "DEL s".to_owned(),
            Op::Create(group, from, make) => {
                let from = from.map_or("$".to_owned(), show);
                let make = if *make { " MKSTREAM" } else { "" };
                format!("XGROUP CREATE s {} {from}{make}", g(group))
            }
            Op::Destroy(group) => format!("XGROUP DESTROY s {}", g(group)),
            Op::SetId(group, id) => format!("XGROUP SETID s {} {}", g(group), show(*id)),
            Op::AddConsumer(group, who) => {
                format!("XGROUP CREATECONSUMER s {} {}", g(group), c(who))
            }
            Op::DelConsumer(group, who) => format!("XGROUP DELCONSUMER s {} {}", g(group), c(who)),
            Op::ReadNew(group, who, count, no_ack) => {
                let no_ack = if *no_ack { " NOACK" } else { "" };
                format!(
                    "XREADGROUP GROUP {} {} COUNT {count}{no_ack} STREAMS s >",
                    g(group),
                    c(who)
                )
            }
            Op::ReadOwn(group, who, after, count) => {
                let after = show(*after);
                format!(
                    "XREADGROUP GROUP {} {} COUNT {count} STREAMS s {after}",
                    g(group),
                    c(who)
                )
            }
            Op::Ack(group, ids) => format!("XACK s {} {}", g(group), show_all(ids)),
            Op::Claim(group, who, idle, ids, one) => {
                let ids = show_all(ids);
                format!("XCLAIM s {} {} {idle} {ids}{}", g(group), c(who), just(one))
            }
            Op::AutoClaim(group, who, idle, from, count, one) => {
                let from = show(*from);
                format!(
                    "XAUTOCLAIM s {} {} {idle} {from} COUNT {count}{}",
                    g(group),
                    c(who),
                    just(one)
                )
            }
            Op::Pending(group, idle, from, to, count, who) => {
                let who = who
                    .as_ref()
                    .map_or(String::new(), |who| format!(" {}", c(who)));
                let (from, to) = (show(*from), show(*to));
                format!(
                    "XPENDING s {} IDLE {idle} {from} {to} {count}{who}",
                    g(group)
                )
            }
            Op::Range(from, to, back) => match back {
                false => format!("XRANGE s {} {}", show(*from), show(*to)),
                true => format!("XREVRANGE s {} {}", show(*to), show(*from)),
            },
            Op::Pass(_) => "PING".to_owned(),
        }
    }

    /// What the command answers, having done it.
    fn run(&mut self, op: &Op) -> String {
        let now = self.now;
        match op {
            Op::Add(id) => {
                self.added += 1;
                let value = self.added - 1;
                self.stream.get_or_insert_default().add(*id, value)
            }
            Op::AddIn(ms) => {
                self.added += 1;
                let value = self.added - 1;
                let stream = self.stream.get_or_insert_default();
                let seq = if stream.last.0 == *ms {
                    stream.last.1 + 1
                } else {
                    0
                };
                stream.add((*ms, seq), value)
            }
            Op::AddTrimmed(id, len) => {
                self.added += 1;
                let value = self.added - 1;
                let stream = self.stream.get_or_insert_default();
                let reply = stream.add(*id, value);
                if reply.starts_with('$') {
                    stream.trim(|_, all| all > *len);
                }
                reply
            }
            Op::Trim(len) => int(self
                .stream
                .as_mut()
                .map_or(0, |stream| stream.trim(|_, all| all > *len))),
            Op::TrimBelow(least) => int(self
                .stream
                .as_mut()
                .map_or(0, |stream| stream.trim(|id, _| id < *least))),
            Op::Del(ids) => {
                let gone = |stream: &mut Stream| {
                    ids.iter()
                        .filter(|id| stream.entries.remove(id).is_some())
                        .count()
                };
                int(self.stream.as_mut().map_or(0, gone) as u64)
            }
            Op::DelKey => int(self.stream.take().is_some().into()),
            Op::Create(group, from, make) => {
                if self.stream.is_none() && !make {
                    return NO_KEY.to_owned();
                }
                let stream = self.stream.get_or_insert_default();
                if stream.groups.contains_key(group) {
                    return "-BUSYGROUP Consumer Group name already exists|".to_owned();
                }
                let last = from.unwrap_or(stream.last);
                stream.groups.insert(
                    *group,
                    Group {
                        last,
                        ..Group::default()
                    },
                );
                "+OK|".to_owned()
            }
            Op::Destroy(_) | Op::SetId(..) | Op::AddConsumer(..) | Op::DelConsumer(..)
                if self.stream.is_none() =>
            {
                NO_KEY.to_owned()
            }
            Op::Range(from, to, back) => {
                let none = Stream::default();
                let stream = self.stream.as_ref().unwrap_or(&none);
                if from > to {
                    return "*0|".to_owned();
                }
                let mut ids: Vec<Id> = stream
                    .entries
                    .range(*from..=*to)
                    .map(|(id, _)| *id)
                    .collect();
                if *back {
                    ids.reverse();
                }
                stream.all(ids)
            }
            Op::Pass(ms) => {
                self.now += ms;
                "+PONG|".to_owned()
            }
            _ => self.run_of_group(op, now),
        }
    }

    fn run_of_group(&mut self, op: &Op, now: u64) -> String {
        let (Op::Destroy(at)
        | Op::SetId(at, _)
        | Op::AddConsumer(at, _)
        | Op::DelConsumer(at, _)
        | Op::ReadNew(at, ..)
        | Op::ReadOwn(at, ..)
        | Op::Ack(at, _)
        | Op::Claim(at, ..)
        | Op::AutoClaim(at, ..)
        | Op::Pending(at, ..)) = op
        else {
            unreachable!("the others need no group");
        };
        let name = GROUPS[*at];
        let Some((stream, mut group)) = self.stream.as_mut().and_then(|stream| {
            let group = stream.groups.remove(at)?;
            Some((stream, group))
        }) else {
            return match op {
                Op::Destroy(_) | Op::Ack(..) => int(0),
                Op::SetId(..) | Op::AddConsumer(..) | Op::DelConsumer(..) => {
                    format!("-NOGROUP No such consumer group '{name}' for key name 's'|")
                }
                Op::ReadNew(..) | Op::ReadOwn(..) => {
                    format!(
                        "-NOGROUP No such key 's' or consumer group '{name}' in XREADGROUP with GROUP option|"
                    )
                }
                _ => format!("-NOGROUP No such key 's' or consumer group '{name}'|"),
            };
        };
        let reply = match op {
            Op::Destroy(_) => return int(1),
            Op::SetId(_, id) => {
                group.last = *id;
                "+OK|".to_owned()
            }
            Op::AddConsumer(_, who) => int(group.meet(*who)),
            Op::DelConsumer(_, who) => {
                group.consumers.retain(|one| one != who);
                let own = group.of(*who);
                group.pending.retain(|_, pending| pending.consumer != *who);
                int(own.len() as u64)
            }
            Op::ReadNew(_, who, count, no_ack) => {
                group.read_new(stream, *who, *count, !no_ack, now)
            }
            Op::ReadOwn(_, who, after, count) => group.read_own(stream, *who, *after, *count, now),
            Op::Ack(_, ids) => int(ids
                .iter()
                .filter(|id| group.pending.remove(id).is_some())
                .count() as u64),
            Op::Claim(_, who, idle, ids, just) => {
                let taken = ids
                    .iter()
                    .filter(|id| group.claim(stream, **id, *who, *idle, *just, now));
                claimed(stream, &taken.copied().collect::<Vec<_>>(), *just)
            }
            Op::AutoClaim(_, who, idle, from, count, just) => {
                group.claim_from(stream, *from, *count, (*who, *idle, *just), now)
            }
            Op::Pending(_, idle, from, to, count, who) => {
                let found = group.pending.range(from..).filter(|(id, pending)| {
                    *id <= to
                        && now - pending.at >= *idle
                        && who.is_none_or(|who| who == pending.consumer)
                });
                let found = found.take(*count).map(|(id, pending)| {
                    let (id, consumer) = (bulk(&show(*id)), bulk(CONSUMERS[pending.consumer]));
                    array(&[id, consumer, int(now - pending.at), int(pending.count)])
                });
                array(&found.collect::<Vec<_>>())
            }
            _ => unreachable!("the others need no group"),
        };
        stream.groups.insert(*at, group);
        reply
    }

    /// What is there, as the commands that look at it tell.
    fn state(&self) -> Vec<(String, String)> {
        let Some(stream) = &self.stream else {
            return vec![("EXISTS s".to_owned(), int(0))];
        };
        let mut state = vec![
            ("XLEN s".to_owned(), int(stream.entries.len() as u64)),
            (
                "XRANGE s - +".to_owned(),
                stream.all(stream.entries.keys().copied()),
            ),
        ];
        for (at, name) in GROUPS.iter().enumerate() {
            let Some(group) = stream.groups.get(&at) else {
                continue;
            };
            let mut owners = group.consumers.clone();
            owners.sort_unstable();
            owners.retain(|who| !group.of(*who).is_empty());
            let owners: Vec<String> = owners
                .iter()
                .map(|who| {
                    array(&[
                        bulk(CONSUMERS[*who]),
                        bulk(&group.of(*who).len().to_string()),
                    ])
                })
                .collect();
            let summary = match (
                group.pending.first_key_value(),
                group.pending.last_key_value(),
            ) {
                (Some((first, _)), Some((last, _))) => {
                    let ends = [bulk(&show(*first)), bulk(&show(*last))].concat();
                    format!(
                        "*4|{}{ends}{}",
                        int(group.pending.len() as u64),
                        array(&owners)
                    )
                }
                _ => "*4|:0|$-1|$-1|*-1|".to_owned(),
            };
            state.push((format!("XPENDING s {name}"), summary));
        }
        state
    }

    /// What XINFO tells of each group: consumers, pending entries, the last ID.
    fn groups(&self) -> Vec<String> {
        let Some(stream) = &self.stream else {
            return Vec::new();
        };
        stream
            .groups
            .iter()
            .map(|(at, group)| {
                [
                    bulk("name") + &bulk(GROUPS[*at]),
                    bulk("consumers") + &int(group.consumers.len() as u64),
                    bulk("pending") + &int(group.pending.len() as u64),
                    bulk("last-delivered-id") + &bulk(&show(group.last)),
                ]
                .concat()
            })
            .collect()
    }
}

fn claimed(stream: &Stream, taken: &[Id], just: bool) -> String {
    match just {
        true => array(&taken.iter().map(|id| bulk(&show(*id))).collect::<Vec<_>>()),
        false => stream.all(taken.iter().copied()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn streams_with_groups_do_what_the_model_does(ops in prop::collection::vec(op(), 1..80)) {
        let (mut world, mut model) = (World::new(1), Model::default());
        for op in &ops {
            let line = model.line(op);
            let expected = model.run(op);
            prop_assert_eq!(world.run(&line), expected, "{}", line);
            if let Op::Pass(ms) = op {
                world.advance_ms(*ms as i64);
            }
            for (line, expected) in model.state() {
                prop_assert_eq!(world.run(&line), expected, "{}", line);
            }
            let told = world.run("XINFO GROUPS s");
            for group in model.groups() {
                prop_assert!(told.contains(&group), "{} in {}", group, told);
            }
        }
    }
}

//! The log against a vector, groups against maps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
type Model = Vec<(StreamId, Pairs)>;

#[derive(Clone, Debug)]
enum Op {
    Append(u64, u64, usize),
    Auto(i64, usize),
    Delete(usize),
    Trim(Trimming),
    Deliver(usize, u8),
    Acknowledge(usize),
    RemoveConsumer(u8),
    Store,
}

fn op() -> impl Strategy<Value = Op> {
    let keep = prop_oneof![
        (0..40_u64).prop_map(Trim::MaxLen),
        (0..60_u64).prop_map(|ms| Trim::MinId(StreamId::new(ms, 0))),
    ];
    let trimming = (keep, any::<bool>(), 0..20_u64).prop_map(|(keep, approximate, limit)| {
        let limit = if approximate { limit } else { 0 };
        Trimming {
            keep,
            approximate,
            limit,
        }
    });
    prop_oneof![
        4 => (0..3_u64, 0..3_u64, 0..6_usize).prop_map(|(ms, seq, pairs)| Op::Append(ms, seq, pairs)),
        4 => (0..60_i64, 0..6_usize).prop_map(|(ms, pairs)| Op::Auto(ms, pairs)),
        2 => (0..80_usize).prop_map(Op::Delete),
        1 => trimming.prop_map(Op::Trim),
        3 => (0..80_usize, 0..3_u8).prop_map(|(at, name)| Op::Deliver(at, name)),
        2 => (0..80_usize).prop_map(Op::Acknowledge),
        1 => (0..3_u8).prop_map(Op::RemoveConsumer),
        1 => Just(Op::Store),
    ]
}

/// Words of an entry; one in three has the fields that the others lack.
fn pairs(kind: usize) -> Pairs {
    (0..=kind)
        .map(|at| {
            let field = format!("field{}", at + usize::from(kind == 4)).into_bytes();
            let value = match at % 3 {
                0 => (kind * 1000).to_string().into_bytes(),
                1 => vec![b'v'; kind * 30],
                _ => Vec::new(),
            };
            (field, value)
        })
        .collect()
}

fn words(pairs: &Pairs) -> Vec<&[u8]> {
    pairs
        .iter()
        .flat_map(|(field, value)| [&field[..], value])
        .collect()
}

fn read(entry: Entry<'_>) -> (StreamId, Pairs) {
    let pairs = entry
        .fields()
        .map(|(field, value)| (field.to_vec(), value.to_vec()));
    (entry.id(), pairs.collect())
}

/// What the counted size must be.
fn heap(stream: &Stream) -> usize {
    let nodes: usize = stream
        .log
        .nodes
        .values()
        .map(|node| 72 + node.heap_bytes())
        .sum();
    let group = |(name, group): (&[u8], &Group)| {
        let consumers = group
            .consumers()
            .map(|consumer| 136 + consumer.name().len());
        256 + name.len() + consumers.sum::<usize>() + 88 * group.pending_len()
    };
    nodes + stream.groups.iter().map(group).sum::<usize>()
}

/// Removes from the model what whole nodes or single entries take, given how many went.
fn trim_model(model: &mut Model, how: &Trimming, removed: u64) {
    let due = match how.keep {
        Trim::MaxLen(most) => model.len().saturating_sub(most as usize),
        Trim::MinId(least) => model.iter().take_while(|(id, _)| *id < least).count(),
    };
    let removed = removed as usize;
    assert!(if how.approximate {
        removed <= due
    } else {
        removed == due
    });
    assert!(how.limit == 0 || removed <= how.limit as usize);
    model.drain(..removed);
}

fn check(stream: &Stream, model: &Model, pending: &BTreeMap<StreamId, (u8, u64)>) {
    let log = stream.log();
    assert_eq!(
        (log.len(), stream.heap_bytes()),
        (model.len(), heap(stream))
    );
    let first = model.first().map_or(StreamId::MIN, |(id, _)| *id);
    assert_eq!(log.state().first_id, first);
    let forth: Model = log.range(StreamId::MIN, StreamId::MAX).map(read).collect();
    assert_eq!(&forth, model);
    let mut back: Model = log
        .range_back(StreamId::MIN, StreamId::MAX)
        .map(read)
        .collect();
    back.reverse();
    assert_eq!(&back, model);
    for (start, end) in [(10, 30), (0, 5), (29, 29), (30, 10)] {
        let (start, end) = (StreamId::new(start, 1), StreamId::new(end, 2));
        let within: Model = log.range(start, end).map(read).collect();
        let inside = |id: &StreamId| (start..=end).contains(id);
        let wanted: Model = model.iter().filter(|(id, _)| inside(id)).cloned().collect();
        assert_eq!(within, wanted);
        let mut back: Model = log.range_back(start, end).map(read).collect();
        back.reverse();
        assert_eq!(back, wanted);
    }
    let group = stream.groups().get(b"g").expect("the group stays");
    let listed: BTreeMap<_, _> = group
        .pending_from(StreamId::MIN)
        .map(|(id, pending)| (*id, (group.name_of(pending.consumer)[0], pending.count)))
        .collect();
    assert_eq!(&listed, pending);
    for consumer in group.consumers() {
        let own = pending
            .iter()
            .filter(|(_, (name, _))| *name == consumer.name()[0]);
        assert!(
            consumer
                .pending_from(StreamId::MIN)
                .eq(own.map(|(id, _)| *id))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_list_with_groups(
        ops in proptest::collection::vec(op(), 0..120),
        entries in 0..6_usize,
        bytes in 0..400_usize,
    ) {
        let limits = NodeLimits { bytes, entries };
        let mut stream = Stream::default();
        assert!(stream.groups_mut().add(b"g", Group::new(StreamId::MIN, 0)));
        let mut model = Model::new();
        let mut pending = BTreeMap::new();
        for op in ops {
            match op {
                Op::Append(ms, seq, kind) => {
                    let last = stream.log().last_id();
                    let id = StreamId::new(last.ms + ms, seq);
                    let added = stream.log_mut().append(NewId::Exact(id), 0, &words(&pairs(kind)), limits);
                    prop_assert_eq!(added, if id > last { Ok(id) } else { Err(AppendError::NotAbove) });
                    if id > last {
                        model.push((id, pairs(kind)));
                    }
                }
                Op::Auto(now, kind) => {
                    let last = stream.log().last_id();
                    let id = stream.log_mut().append(NewId::Auto, now, &words(&pairs(kind)), limits).expect("IDs are left");
                    let wanted = if now as u64 > last.ms { StreamId::new(now as u64, 0) } else { StreamId::new(last.ms, last.seq + 1) };
                    prop_assert_eq!(id, wanted);
                    model.push((id, pairs(kind)));
                }
                Op::Delete(at) => {
                    let id = model.get(at).map_or(StreamId::new(3, 1000), |(id, _)| *id);
                    prop_assert_eq!(stream.log_mut().delete(id), at < model.len());
                    model.retain(|(other, _)| *other != id);
                }
                Op::Trim(how) => {
                    let removed = stream.log_mut().trim(&how);
                    trim_model(&mut model, &how, removed);
                }
                Op::Deliver(at, name) => {
                    let Some(&(id, _)) = model.get(at) else { continue };
                    let (log, groups) = stream.parts_mut();
                    let mut group = groups.get_mut(b"g").expect("the group stays");
                    let consumer = group.add_consumer(&[name], 5).or_else(|| group.find(&[name])).expect("a consumer");
                    group.advance(log, id);
                    group.deliver(id, Pending { consumer, delivered_ms: 7, count: at as u64 });
                    pending.insert(id, (name, at as u64));
                }
                Op::Acknowledge(at) => {
                    let Some(&(id, _)) = model.get(at) else { continue };
                    let was = stream.groups_mut().acknowledge_everywhere(id);
                    prop_assert_eq!(was, pending.remove(&id).is_some());
                }
                Op::RemoveConsumer(name) => {
                    let mut group = stream.groups_mut().get_mut(b"g").expect("the group stays");
                    let removed = group.remove_consumer(&[name]).unwrap_or(0);
                    drop(group);
                    let before = pending.len();
                    pending.retain(|_, (owner, _)| *owner != name);
                    prop_assert_eq!(removed, before - pending.len());
                }
                Op::Store => {
                    let nodes: Vec<_> = stream.log().nodes().map(|(id, bytes)| (id, bytes.to_vec())).collect();
                    let log = Log::from_nodes(nodes, *stream.log().state()).expect("a whole log");
                    prop_assert_eq!(log.state(), stream.log().state());
                    stream = Stream::from_parts(log, stream.groups().clone());
                }
            }
            check(&stream, &model, &pending);
        }
    }
}

#[test]
fn trimming_keeps_what_may_not_go() {
    let limits = NodeLimits {
        bytes: 0,
        entries: 4,
    };
    let mut log = Log::default();
    for ms in 1..=20 {
        let id = NewId::Exact(StreamId::new(ms, 0));
        log.append(id, 0, &[b"f", b"v"], limits)
            .expect("growing IDs");
    }
    let how = Trimming {
        keep: Trim::MaxLen(10),
        approximate: false,
        limit: 0,
    };
    let removed = log.trim_if(&how, &mut |id| id.ms % 3 != 0);
    let left: Vec<u64> = log
        .range(StreamId::MIN, StreamId::MAX)
        .map(|entry| entry.id().ms)
        .collect();
    assert_eq!(removed, 7);
    assert_eq!(
        left,
        [&[3, 6, 9][..], &(11..=20).collect::<Vec<_>>()].concat()
    );
    assert_eq!((log.len(), log.state().first_id.ms), (13, 3));
}

#[test]
fn gaps_hide_the_lag() {
    let mut stream = Stream::default();
    let limits = NodeLimits {
        bytes: 4096,
        entries: 100,
    };
    for ms in 1..=5 {
        let id = NewId::Exact(StreamId::new(ms, 0));
        stream
            .log_mut()
            .append(id, 0, &[b"f", b"v"], limits)
            .expect("growing IDs");
    }
    let lag = |stream: &Stream, ms, read| Group::new(StreamId::new(ms, 0), read).lag(stream.log());
    assert_eq!(lag(&stream, 0, READ_UNKNOWN), Some(5));
    assert_eq!(lag(&stream, 1, READ_UNKNOWN), Some(4));
    assert_eq!(lag(&stream, 2, READ_UNKNOWN), None);
    assert_eq!(lag(&stream, 2, 2), Some(3));
    assert_eq!(lag(&stream, 5, READ_UNKNOWN), Some(0));
    assert!(stream.log_mut().delete(StreamId::new(3, 0)));
    assert_eq!(lag(&stream, 2, 2), None);
    assert_eq!(lag(&stream, 4, 4), Some(1));
    assert!(stream.log_mut().delete(StreamId::new(1, 0)));
    assert!(stream.log_mut().delete(StreamId::new(2, 0)));
    assert_eq!(
        lag(&stream, 2, READ_UNKNOWN),
        Some(2),
        "the gap is before the first entry now"
    );
}

//! SUBSCRIBE, UNSUBSCRIBE and their forms for patterns and shard channels: one reply for each name.

use super::NodeRunner;
use std::sync::Arc;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::{NodeCx, Subscriber, Topic};
use tollgate_wire::resp::{Protocol, ReplyBuf};

pub(super) fn subscribe(
    runner: &NodeRunner<'_>,
    cx: &mut NodeCx<'_>,
    topic: Topic,
) -> Result<Reply, CmdError> {
    let kind = match topic {
        Topic::Channel => "subscribe",
        Topic::Pattern => "psubscribe",
        Topic::ShardChannel => "ssubscribe",
    };
    let subscriptions = &runner.client.subscriptions;
    // The protocol must be known to whoever publishes before the first subscription is.
    runner.client.publish_session(cx.session);
    for name in cx.args.rest() {
        if subscriptions.add(topic, name) {
            let client: Arc<dyn Subscriber> = Arc::clone(runner.client) as _;
            cx.engine.pubsub().subscribe(topic, name, client);
        }
        tell(cx.out, kind, Some(name), subscriptions.counted_with(topic));
    }
    cx.session.subscriptions = subscriptions.counts().iter().sum();
    runner.client.count();
    Ok(Reply::Written)
}

pub(super) fn unsubscribe(
    runner: &NodeRunner<'_>,
    cx: &mut NodeCx<'_>,
    topic: Topic,
) -> Result<Reply, CmdError> {
    let kind = match topic {
        Topic::Channel => "unsubscribe",
        Topic::Pattern => "punsubscribe",
        Topic::ShardChannel => "sunsubscribe",
    };
    let subscriptions = &runner.client.subscriptions;
    let mut one = |name: &[u8]| {
        if subscriptions.remove(topic, name) {
            cx.engine
                .pubsub()
                .unsubscribe(topic, name, runner.client.id);
        }
        tell(cx.out, kind, Some(name), subscriptions.counted_with(topic));
    };
    if cx.args.is_empty() {
        let names = subscriptions.names(topic);
        names.iter().for_each(|name| one(name));
        if names.is_empty() {
            tell(cx.out, kind, None, subscriptions.counted_with(topic));
        }
    } else {
        cx.args.rest().iter().for_each(|name| one(name));
    }
    cx.session.subscriptions = subscriptions.counts().iter().sum();
    // Nothing more comes by what has just ended. What has come is no message any more behind the end of it: a client of RESP2
    // would take it for a reply. One of RESP3 would not, and in a transaction something may be there that comes behind its reply.
    if cx.session.protocol == Protocol::Resp2 || !cx.in_transaction {
        runner.client.outbox.bring_forward();
    }
    runner.client.count();
    Ok(Reply::Written)
}

fn tell(out: &mut ReplyBuf, kind: &str, name: Option<&[u8]>, count: usize) {
    out.push(3);
    out.bulk(kind.as_bytes());
    match name {
        Some(name) => out.bulk(name),
        None => out.null(),
    }
    out.int(count as i64);
}

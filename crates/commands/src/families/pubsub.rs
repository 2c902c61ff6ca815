//! Channels and messages. Subscribing belongs to the connection, so the server answers; publishing and looking belong
//! to the engine's registry.

use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, exactly, row};
use crate::{
    Acl, Args, Arity, Channels, CmdError, Cx, Family, Flags, Group, NodeCommand, PubSubCommand,
    Reply, Row, Run,
};

const LOOK: Flags = Flags::PUBSUB.or(Flags::LOADING).or(Flags::STALE);
const OWN: Flags = LOOK.or(Flags::NOSCRIPT);
const SEND: Flags = LOOK.or(Flags::FAST).or(Flags::MAY_REPLICATE);

const CHANNEL: KeySpec = KeySpec::at(1, KeyFlags::NOT_KEY);
const CHANNELS: KeySpec = KeySpec::every(1, KeyFlags::NOT_KEY);

pub(super) static FAMILY: Family = Family {
    name: "Pub/Sub",
    about: "Messages to whoever listens at the time: by channel, by pattern, by shard channel.",
    rows: &[
        node("PSUBSCRIBE", at_least(2), NodeCommand::PSubscribe)
            .channels(Channels::EveryPattern)
            .takes("pattern [pattern ...]")
            .docs(
                "Listens to the channels that match patterns.",
                "2.0.0",
                "O(N) in the patterns",
            ),
        pubsub("PUBLISH", exactly(3), SEND, PubSubCommand::Publish)
            .channels(Channels::First)
            .takes("channel message")
            .docs(
                "Sends a message to everyone who listens to a channel.",
                "2.0.0",
                "O(N+M) in the subscribers of the channel and the patterns of all",
            ),
        row("PUBSUB", at_least(2), Flags::NONE, Run::Container)
            .acl(Group::PubSub, Acl::NONE)
            .docs(
                "Holds the commands that look at subscriptions.",
                "2.8.0",
                "Depends on the sub-command",
            )
            .subs(SUBS),
        node("PUNSUBSCRIBE", at_least(1), NodeCommand::PUnsubscribe)
            .takes("[pattern [pattern ...]]")
            .docs(
                "Stops listening to patterns; without any, to all.",
                "2.0.0",
                "O(N) in the patterns",
            ),
        pubsub("SPUBLISH", exactly(3), SEND, PubSubCommand::SPublish)
            .keys(&[CHANNEL])
            .channels(Channels::First)
            .takes("shardchannel message")
            .docs(
                "Sends a message to everyone who listens to a shard channel.",
                "7.0.0",
                "O(N) in the subscribers of the channel",
            ),
        node("SSUBSCRIBE", at_least(2), NodeCommand::SSubscribe)
            .keys(&[CHANNELS])
            .channels(Channels::Every)
            .takes("shardchannel [shardchannel ...]")
            .docs(
                "Listens to shard channels.",
                "7.0.0",
                "O(N) in the channels",
            ),
        node("SUBSCRIBE", at_least(2), NodeCommand::Subscribe)
            .channels(Channels::Every)
            .takes("channel [channel ...]")
            .docs("Listens to channels.", "2.0.0", "O(N) in the channels"),
        node("SUNSUBSCRIBE", at_least(1), NodeCommand::SUnsubscribe)
            .keys(&[CHANNELS])
            .takes("[shardchannel [shardchannel ...]]")
            .docs(
                "Stops listening to shard channels; without any, to all.",
                "7.0.0",
                "O(N) in the channels",
            ),
        node("UNSUBSCRIBE", at_least(1), NodeCommand::Unsubscribe)
            .takes("[channel [channel ...]]")
            .docs(
                "Stops listening to channels; without any, to all.",
                "2.0.0",
                "O(N) in the channels",
            ),
    ],
};

const SUBS: &[Row] = &[
    pubsub(
        "PUBSUB|CHANNELS",
        at_least(2),
        LOOK,
        PubSubCommand::Channels,
    )
    .takes("[pattern]")
    .docs(
        "Lists the channels that somebody listens to.",
        "2.8.0",
        "O(N) in the channels",
    ),
    row(
        "PUBSUB|HELP",
        exactly(2),
        Flags::LOADING.or(Flags::STALE),
        Run::Local(help),
    )
    .acl(Group::PubSub, Acl::NONE)
    .docs("Describes the sub-commands.", "6.2.0", "O(1)"),
    pubsub("PUBSUB|NUMPAT", exactly(2), LOOK, PubSubCommand::NumPat).docs(
        "Counts the patterns that somebody listens to.",
        "2.8.0",
        "O(1)",
    ),
    pubsub("PUBSUB|NUMSUB", at_least(2), LOOK, PubSubCommand::NumSub)
        .takes("[channel [channel ...]]")
        .docs(
            "Counts who listens to channels.",
            "2.8.0",
            "O(N) in the channels asked for",
        ),
    pubsub(
        "PUBSUB|SHARDCHANNELS",
        at_least(2),
        LOOK,
        PubSubCommand::ShardChannels,
    )
    .takes("[pattern]")
    .docs(
        "Lists the shard channels that somebody listens to.",
        "7.0.0",
        "O(N) in the channels",
    ),
    pubsub(
        "PUBSUB|SHARDNUMSUB",
        at_least(2),
        LOOK,
        PubSubCommand::ShardNumSub,
    )
    .takes("[shardchannel [shardchannel ...]]")
    .docs(
        "Counts who listens to shard channels.",
        "7.0.0",
        "O(N) in the channels asked for",
    ),
];

const fn pubsub(name: &'static str, arity: Arity, flags: Flags, command: PubSubCommand) -> Row {
    row(name, arity, flags, Run::PubSub(command)).acl(Group::PubSub, Acl::NONE)
}

const fn node(name: &'static str, arity: Arity, command: NodeCommand) -> Row {
    row(name, arity, OWN, Run::Node(command)).acl(Group::PubSub, Acl::NONE)
}

fn help(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    let lines = [
        "CHANNELS [<pattern>]",
        "    Return the currently active channels matching a <pattern> (default: '*').",
        "NUMPAT",
        "    Return number of subscriptions to patterns.",
        "NUMSUB [<channel> ...]",
        "    Return the number of subscribers for the specified channels, excluding",
        "    pattern subscriptions(default: no channels).",
        "SHARDCHANNELS [<pattern>]",
        "    Return the currently active shard level channels matching a <pattern> (default: '*').",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Return the number of subscribers for the specified shard level channel(s)",
    ];
    Ok(super::help(cx, &args, &lines))
}

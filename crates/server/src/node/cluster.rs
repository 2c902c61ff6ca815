//! CLUSTER, READONLY, READWRITE and ASKING, as the only node of a cluster answers them.

use super::NodeRunner;
use crate::cluster::{self, Endpoint, Myself, describe, endpoint, ranges};
use crate::config::Key;
use crate::shared::Shared;
use tollgate_commands::{Args, ClusterCommand, CmdError, Reply, help_title};
use tollgate_containers::number;
use tollgate_engine::{Cluster, NodeCx, sha1};
use tollgate_keyspace::{SLOTS, slot_of};
use tollgate_net::process;
use tollgate_wire::resp::ReplyBuf;

/// What HELP prints: usage and meaning.
const HELP: &[(&str, &str)] = &[
    ("ADDSLOTS <slot> [<slot> ...]", "Serve slots."),
    (
        "ADDSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
        "Serve ranges of slots.",
    ),
    ("BUMPEPOCH", "Advance the epoch of the configuration."),
    (
        "COUNT-FAILURE-REPORTS <node-id>",
        "How many nodes report that a node has failed.",
    ),
    ("COUNTKEYSINSLOT <slot>", "How many keys a slot has."),
    ("DELSLOTS <slot> [<slot> ...]", "Serve slots no more."),
    (
        "DELSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
        "Serve ranges of slots no more.",
    ),
    ("FLUSHSLOTS", "Serve no slot."),
    ("GETKEYSINSLOT <slot> <count>", "Keys of a slot."),
    ("INFO", "The state of the cluster."),
    ("KEYSLOT <key>", "The slot of a key."),
    (
        "LINKS",
        "Connections to other nodes, of which there are none.",
    ),
    ("MYID", "The name of the node."),
    ("MYSHARDID", "The name of the node's shard."),
    ("NODES", "The node, its address and its slots as text."),
    ("REPLICAS <node-id>", "Replicas of a node."),
    ("RESET [HARD|SOFT]", "Become a new node."),
    ("SAVECONFIG", "Write the file of the node."),
    ("SET-CONFIG-EPOCH <epoch>", "Set the epoch of a new node."),
    (
        "SETSLOT <slot> (IMPORTING <node-id>|MIGRATING <node-id>|STABLE|NODE <node-id>)",
        "Set the state of a slot.",
    ),
    ("SHARDS", "Slots and the nodes that serve them."),
    (
        "SLOT-STATS (SLOTSRANGE <start> <end>|ORDERBY KEY-COUNT [LIMIT <n>] [ASC|DESC])",
        "How many keys slots have.",
    ),
    ("SLOTS", "Ranges of slots and the nodes that serve them."),
    ("HELP", "Prints this help."),
];

pub(super) fn run(
    runner: &NodeRunner<'_>,
    command: ClusterCommand,
    cx: &mut NodeCx<'_>,
) -> Result<Reply, CmdError> {
    let shared = &**runner.shared;
    let cluster = shared.engine.cluster();
    let reads = matches!(
        command,
        ClusterCommand::ReadOnly | ClusterCommand::ReadWrite
    );
    // A replica sends a client that goes there to its master, so there is something to allow.
    let is_known = cluster.is_on() || (reads && cx.session.follows_redirects);
    if !is_known {
        return Err(CmdError::NoCluster);
    }
    let myself = shared.cluster.myself();
    match command {
        // A node without others redirects nobody, so there is nothing to allow.
        ClusterCommand::Asking => Ok(Reply::Ok),
        ClusterCommand::ReadOnly | ClusterCommand::ReadWrite => {
            cx.session.reads_replicas = command == ClusterCommand::ReadOnly;
            Ok(Reply::Ok)
        }
        ClusterCommand::AddSlots => serve(shared, &single_slots(&cx.args)?, true),
        ClusterCommand::DelSlots => serve(shared, &single_slots(&cx.args)?, false),
        ClusterCommand::AddSlotsRange => serve(shared, &slot_ranges(&cx.args, cx.row.name)?, true),
        ClusterCommand::DelSlotsRange => serve(shared, &slot_ranges(&cx.args, cx.row.name)?, false),
        ClusterCommand::FlushSlots => flush_slots(shared, cx),
        ClusterCommand::SetSlot => set_slot(shared, &myself, &mut cx.args),
        ClusterCommand::BumpEpoch => bump_epoch(shared, cx),
        ClusterCommand::SetConfigEpoch => set_config_epoch(shared, &mut cx.args),
        ClusterCommand::Reset => reset(shared, cx),
        ClusterCommand::SaveConfig => save_config(shared),
        ClusterCommand::Failover => refuse_failover(&cx.args),
        ClusterCommand::Meet => refuse_meeting(&mut cx.args),
        ClusterCommand::Forget => {
            known(&myself, cx.args.next()?)?;
            Err(CmdError::err("I tried hard but I can't forget myself..."))
        }
        ClusterCommand::Replicate => {
            known(&myself, cx.args.next()?)?;
            Err(CmdError::err("Can't replicate myself"))
        }
        ClusterCommand::CountFailureReports => {
            known(&myself, cx.args.next()?)?;
            Ok(Reply::Int(0))
        }
        ClusterCommand::Replicas => {
            known(&myself, cx.args.next()?)?;
            cx.out.array(0);
            Ok(Reply::Written)
        }
        ClusterCommand::KeySlot => Ok(Reply::Int(i64::from(slot_of(cx.args.next()?)))),
        ClusterCommand::CountKeysInSlot => count_keys(cx),
        ClusterCommand::GetKeysInSlot => keys_in_slot(cx),
        ClusterCommand::SlotStats => slot_stats(cluster, cx),
        ClusterCommand::Help
        | ClusterCommand::Info
        | ClusterCommand::Links
        | ClusterCommand::MyId
        | ClusterCommand::MyShardId
        | ClusterCommand::Nodes
        | ClusterCommand::Shards
        | ClusterCommand::Slots => {
            tell(runner, &myself, command, cx);
            Ok(Reply::Written)
        }
    }
}

/// Commands that only describe the node.
fn tell(runner: &NodeRunner<'_>, myself: &Myself, command: ClusterCommand, cx: &mut NodeCx<'_>) {
    let (shared, client) = (&**runner.shared, Some(&**runner.client));
    let cluster = shared.engine.cluster();
    match command {
        ClusterCommand::Help => help(&cx.args, cx.out),
        ClusterCommand::Info => cx.out.verbatim("txt", info(cluster, myself).as_bytes()),
        ClusterCommand::MyId => cx.out.bulk(myself.name.as_bytes()),
        ClusterCommand::MyShardId => cx.out.bulk(shard_name(myself).as_bytes()),
        ClusterCommand::Nodes => cx
            .out
            .verbatim("txt", describe(shared, myself, client).as_bytes()),
        ClusterCommand::Shards => shards(shared, myself, &endpoint(shared, client), cx),
        ClusterCommand::Slots => slots(shared, myself, &endpoint(shared, client), cx.out),
        // No connection to another node.
        _ => cx.out.array(0),
    }
}

/// Fails for the name of any other node.
fn known(myself: &Myself, name: &[u8]) -> Result<(), CmdError> {
    match name == myself.name.as_bytes() {
        true => Ok(()),
        false => Err(quoting("Unknown node ", name)),
    }
}

fn quoting(text: &str, word: &[u8]) -> CmdError {
    CmdError::err([text.as_bytes(), word].concat())
}

fn slot_number(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|&slot| slot < SLOTS)
}

pub(super) fn slot(word: &[u8]) -> Result<u16, CmdError> {
    number::parse_i64(word)
        .and_then(slot_number)
        .ok_or(CmdError::BadSlot)
}

fn single_slots(args: &Args<'_>) -> Result<Vec<u16>, CmdError> {
    args.rest().iter().map(|word| slot(word)).collect()
}

fn slot_ranges(args: &Args<'_>, name: &'static str) -> Result<Vec<u16>, CmdError> {
    let words = args.rest();
    if !words.len().is_multiple_of(2) {
        return Err(CmdError::Arity(name));
    }
    let mut slots = Vec::new();
    for pair in words.chunks_exact(2) {
        let (start, end) = (slot(pair[0])?, slot(pair[1])?);
        if start > end {
            return Err(CmdError::err(format!(
                "start slot number {start} is greater than end slot number {end}"
            )));
        }
        // More than all slots are some of them twice, which is refused; there is no need to go on.
        if slots.len() <= usize::from(SLOTS) {
            slots.extend(start..=end);
        }
    }
    Ok(slots)
}

/// Begins or ends to serve slots: all of them, or none if one is refused.
fn serve(shared: &Shared, slots: &[u16], serves: bool) -> Result<Reply, CmdError> {
    let _turn = shared.cluster.turn();
    let cluster = shared.engine.cluster();
    let mut named = vec![false; usize::from(SLOTS)];
    for &slot in slots {
        if cluster.serves(slot) == serves {
            let state = if serves { "busy" } else { "unassigned" };
            return Err(CmdError::err(format!("Slot {slot} is already {state}")));
        }
        if std::mem::replace(&mut named[usize::from(slot)], true) {
            return Err(CmdError::err(format!(
                "Slot {slot} specified multiple times"
            )));
        }
    }
    slots
        .iter()
        .for_each(|&slot| cluster.set_served(slot, serves));
    shared.engine.turn_away_waiters();
    keep(shared);
    Ok(Reply::Ok)
}

/// Writes what has changed in the turn that the caller has; if that fails the operator is told, and the change counts until the end of the process.
fn keep(shared: &Shared) {
    if let Err(error) = cluster::save(shared, &shared.cluster.myself()) {
        shared.log.warning(format_args!(
            "the file of the cluster's node cannot be written: {error}"
        ));
    }
}

fn save_config(shared: &Shared) -> Result<Reply, CmdError> {
    let _turn = shared.cluster.turn();
    cluster::save(shared, &shared.cluster.myself())
        .map_err(|error| CmdError::err(format!("error saving the cluster node config: {error}")))?;
    Ok(Reply::Ok)
}

fn has_keys(cx: &NodeCx<'_>) -> bool {
    cx.engine.database_sizes().iter().any(|size| size.keys > 0)
}

fn flush_slots(shared: &Shared, cx: &NodeCx<'_>) -> Result<Reply, CmdError> {
    if has_keys(cx) {
        return Err(CmdError::err(
            "DB must be empty to perform CLUSTER FLUSHSLOTS.",
        ));
    }
    let _turn = shared.cluster.turn();
    (0..SLOTS).for_each(|slot| shared.engine.cluster().set_served(slot, false));
    shared.engine.turn_away_waiters();
    keep(shared);
    Ok(Reply::Ok)
}

fn set_slot(shared: &Shared, myself: &Myself, args: &mut Args<'_>) -> Result<Reply, CmdError> {
    let cluster = shared.engine.cluster();
    let slot = slot(args.next()?)?;
    let action = args.next()?.to_ascii_lowercase();
    let stranger = |name: &[u8]| match name == myself.name.as_bytes() {
        true => CmdError::err("a slot cannot be moved to where it is"),
        false => quoting("I don't know about node ", name),
    };
    match (&action[..], args.rest()) {
        (b"migrating", [_]) if !cluster.serves(slot) => Err(CmdError::err(format!(
            "I'm not the owner of hash slot {slot}"
        ))),
        (b"importing", [_]) if cluster.serves(slot) => Err(CmdError::err(format!(
            "I'm already the owner of hash slot {slot}"
        ))),
        (b"migrating" | b"importing", [name]) => Err(stranger(name)),
        (b"stable", []) => Ok(Reply::Ok),
        (b"node", [name]) => {
            known(myself, name)?;
            let _turn = shared.cluster.turn();
            cluster.set_served(slot, true);
            keep(shared);
            Ok(Reply::Ok)
        }
        _ => Err(CmdError::err(
            "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
        )),
    }
}

fn bump_epoch(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let _turn = shared.cluster.turn();
    let mut myself = shared.cluster.myself();
    let is_latest = myself.config_epoch != 0 && myself.config_epoch == myself.current_epoch;
    if !is_latest {
        myself.current_epoch += 1;
        myself.config_epoch = myself.current_epoch;
        shared.cluster.set(myself.clone());
        keep(shared);
    }
    let word = if is_latest { "STILL" } else { "BUMPED" };
    cx.out.simple(&format!("{word} {}", myself.config_epoch));
    Ok(Reply::Written)
}

fn set_config_epoch(shared: &Shared, args: &mut Args<'_>) -> Result<Reply, CmdError> {
    let epoch = args.int()?;
    let epoch = u64::try_from(epoch)
        .map_err(|_| CmdError::err(format!("Invalid config epoch specified: {epoch}")))?;
    let _turn = shared.cluster.turn();
    let mut myself = shared.cluster.myself();
    if myself.config_epoch != 0 {
        return Err(CmdError::err("Node config epoch is already non-zero"));
    }
    myself.config_epoch = epoch;
    myself.current_epoch = myself.current_epoch.max(epoch);
    shared.cluster.set(myself);
    keep(shared);
    Ok(Reply::Ok)
}

fn reset(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let hard = match cx.args.rest() {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"SOFT") => false,
        [word] if word.eq_ignore_ascii_case(b"HARD") => true,
        _ => return Err(CmdError::Syntax),
    };
    if has_keys(cx) {
        return Err(CmdError::err(
            "CLUSTER RESET can't be called with master nodes containing keys",
        ));
    }
    let _turn = shared.cluster.turn();
    if hard {
        let name = process::random_id().map_err(|error| CmdError::err(error.to_string()))?;
        shared.cluster.set(Myself {
            name,
            ..Myself::default()
        });
    }
    // An emulated cluster has all slots from the beginning.
    let emulated = cluster::is_emulated(shared);
    (0..SLOTS).for_each(|slot| shared.engine.cluster().set_served(slot, emulated));
    shared.engine.turn_away_waiters();
    keep(shared);
    Ok(Reply::Ok)
}

fn refuse_failover(args: &Args<'_>) -> Result<Reply, CmdError> {
    match args.rest() {
        [] => {}
        [word] if word.eq_ignore_ascii_case(b"FORCE") || word.eq_ignore_ascii_case(b"TAKEOVER") => {
        }
        _ => return Err(CmdError::Syntax),
    }
    Err(CmdError::err(
        "You should send CLUSTER FAILOVER to a replica",
    ))
}

fn refuse_meeting(args: &mut Args<'_>) -> Result<Reply, CmdError> {
    args.next()?;
    for kind in ["base", "bus"] {
        if let Ok(word) = args.next()
            && number::parse_i64(word).is_none()
        {
            return Err(quoting(
                &format!("Invalid TCP {kind} port specified: "),
                word,
            ));
        }
    }
    Err(CmdError::err(
        "this server is a cluster of one node: it has no cluster bus to meet others on",
    ))
}

fn count_keys(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let slot = slot_number(cx.args.int()?).ok_or(CmdError::err("Invalid slot"))?;
    let counts = cx.engine.count_slots(cx.now.millis());
    Ok(Reply::Int(i64::from(counts[usize::from(slot)])))
}

fn keys_in_slot(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let (slot, most) = (cx.args.int()?, cx.args.int()?);
    let (Some(slot), Ok(most)) = (slot_number(slot), usize::try_from(most)) else {
        return Err(CmdError::err("Invalid slot or number of keys"));
    };
    let keys = match most {
        0 => Vec::new(),
        most => cx.engine.keys_in_slot(slot, most, cx.now.millis()),
    };
    cx.out.array(keys.len());
    keys.iter().for_each(|key| cx.out.bulk(key));
    Ok(Reply::Written)
}

fn help(args: &Args<'_>, out: &mut ReplyBuf) {
    out.array(1 + 2 * HELP.len());
    out.simple(&help_title(args));
    for (usage, about) in HELP {
        out.simple(usage);
        out.simple(&format!("    {about}"));
    }
}

fn info(cluster: &Cluster, myself: &Myself) -> String {
    let count = cluster.count();
    let state = if cluster.is_well() { "ok" } else { "fail" };
    format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{count}\r\ncluster_slots_ok:{count}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\n\
         cluster_size:{}\r\ncluster_current_epoch:{}\r\ncluster_my_epoch:{}\r\n\
         cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\n",
        u8::from(count > 0),
        myself.current_epoch,
        myself.config_epoch,
    )
}

/// 40 hexadecimal digits that stay with the node's name.
fn shard_name(myself: &Myself) -> String {
    let digest = sha1(myself.name.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// By what clients are to find nodes: `cluster-preferred-endpoint-type`.
fn preferred(shared: &Shared, at: &Endpoint) -> Option<Box<str>> {
    match &*shared.settings.get(Key::ClusterPreferredEndpointType) {
        "hostname" if at.hostname.is_empty() => Some("?".into()),
        "hostname" => Some(at.hostname.clone()),
        "unknown-endpoint" => None,
        _ => Some(at.ip.clone()),
    }
}

fn pair(out: &mut ReplyBuf, name: &str, value: &str) {
    out.bulk(name.as_bytes());
    out.bulk(value.as_bytes());
}

fn slots(shared: &Shared, myself: &Myself, at: &Endpoint, out: &mut ReplyBuf) {
    let by = shared.settings.get(Key::ClusterPreferredEndpointType);
    let tells_ip = &*by != "ip";
    let tells_hostname = &*by != "hostname" && !at.hostname.is_empty();
    let ranges = ranges(shared.engine.cluster());
    out.array(ranges.len());
    for (start, end) in ranges {
        out.array(3);
        out.int(i64::from(start));
        out.int(i64::from(end));
        out.array(4);
        match preferred(shared, at) {
            Some(endpoint) => out.bulk(endpoint.as_bytes()),
            None => out.null(),
        }
        out.int(i64::from(at.port));
        out.bulk(myself.name.as_bytes());
        out.map(usize::from(tells_ip) + usize::from(tells_hostname));
        if tells_ip {
            pair(out, "ip", &at.ip);
        }
        if tells_hostname {
            pair(out, "hostname", &at.hostname);
        }
    }
}

fn shards(shared: &Shared, myself: &Myself, at: &Endpoint, cx: &mut NodeCx<'_>) {
    let ranges = ranges(shared.engine.cluster());
    let offset = cx.engine.journal_facts().offset as i64;
    let out = &mut *cx.out;
    out.array(1);
    out.map(2);
    out.bulk(b"slots");
    out.array(2 * ranges.len());
    for (start, end) in ranges {
        out.int(i64::from(start));
        out.int(i64::from(end));
    }
    out.bulk(b"nodes");
    out.array(1);
    let ports = usize::from(at.port != 0) + usize::from(at.tls_port != 0);
    out.map(6 + ports + usize::from(!at.hostname.is_empty()));
    pair(out, "id", &myself.name);
    for (name, port) in [("port", at.port), ("tls-port", at.tls_port)] {
        if port != 0 {
            out.bulk(name.as_bytes());
            out.int(i64::from(port));
        }
    }
    pair(out, "ip", &at.ip);
    pair(
        out,
        "endpoint",
        preferred(shared, at).as_deref().unwrap_or_default(),
    );
    if !at.hostname.is_empty() {
        pair(out, "hostname", &at.hostname);
    }
    pair(out, "role", "master");
    out.bulk(b"replication-offset");
    out.int(offset);
    pair(out, "health", "online");
}

/// CLUSTER SLOT-STATS of Redis 8.2, with the one figure that is there unless a setting asks for more.
fn slot_stats(cluster: &Cluster, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let args = &mut cx.args;
    let mut wanted = (0, SLOTS - 1);
    let mut order = None;
    if args.keyword("SLOTSRANGE") {
        wanted = (slot(args.next()?)?, slot(args.next()?)?);
        if wanted.0 > wanted.1 {
            return Err(CmdError::err(format!(
                "Start slot number {} is greater than end slot number {}",
                wanted.0, wanted.1
            )));
        }
        args.end()?;
    } else if args.keyword("ORDERBY") {
        order = Some(parse_order(args)?);
    } else {
        return Err(CmdError::Syntax);
    }
    let counts = cx.engine.count_slots(cx.now.millis());
    let mut found: Vec<(u16, u32)> = (wanted.0..=wanted.1)
        .filter(|&slot| cluster.serves(slot))
        .map(|slot| (slot, counts[usize::from(slot)]))
        .collect();
    if let Some((descending, most)) = order {
        match descending {
            true => found.sort_by_key(|&(slot, count)| (std::cmp::Reverse(count), slot)),
            false => found.sort_by_key(|&(slot, count)| (count, slot)),
        }
        found.truncate(most);
    }
    cx.out.array(found.len());
    for (slot, count) in found {
        cx.out.array(2);
        cx.out.int(i64::from(slot));
        cx.out.map(1);
        cx.out.bulk(b"key-count");
        cx.out.int(i64::from(count));
    }
    Ok(Reply::Written)
}

/// `KEY-COUNT [LIMIT n] [ASC | DESC]`: whether the largest come first, and how many.
fn parse_order(args: &mut Args<'_>) -> Result<(bool, usize), CmdError> {
    if !args.keyword("KEY-COUNT") {
        args.next()?;
        return Err(CmdError::err("Unrecognized sort metric for ORDERBY."));
    }
    let (mut descending, mut most) = (true, usize::from(SLOTS));
    while !args.is_empty() {
        if args.keyword("LIMIT") {
            let limit = args.int()?;
            let allowed = usize::try_from(limit).ok();
            most = allowed
                .filter(|&most| (1..=usize::from(SLOTS)).contains(&most))
                .ok_or(CmdError::err(
                    "Limit has to lie in between 1 and 16384 (maximum number of slots).",
                ))?;
        } else if args.keyword("ASC") {
            descending = false;
        } else if args.keyword("DESC") {
            descending = true;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    Ok((descending, most))
}

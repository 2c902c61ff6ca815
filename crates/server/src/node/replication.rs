//! SYNC, PSYNC, REPLCONF, ROLE: what replicas ask and say.

use super::info::Text;
use super::{NodeRunner, replicaof};
use crate::client::Part;
use crate::config::Key;
use crate::failover;
use crate::link::Stage;
use crate::replication;
use crate::shared::Shared;
use std::sync::Arc;
use tollgate_commands::{CmdError, Reply};
use tollgate_containers::number;
use tollgate_engine::{NodeCx, Replica, SyncStart};
use tollgate_limiter::Timestamp;
use tollgate_wire::resp::split_line;

/// What a replica of this kind says to be able to, beside what those of Redis are: to know rate limiters.
pub(crate) const ABILITY: &[u8] = b"tollgate";

/// The first major version of Valkey that has its own form of hashes whose fields expire.
const FIRST_WITH_OWN_FORM: i64 = 9;

/// Longest address that a replica may give.
const ADDRESS_MAX: usize = 1_025;

pub(super) fn sync(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    if cx.session.follows {
        return Ok(Reply::Written);
    }
    may_be_followed(runner)?;
    follow(runner, cx);
    let (host, port) = runner.client.replica_address();
    runner.shared.log.notice(format_args!(
        "Replica {host}:{port} asks for synchronization by SYNC"
    ));
    replication::begin(runner.shared, runner.client, false);
    Ok(Reply::Written)
}

pub(super) fn psync(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    if cx.session.follows {
        return Ok(Reply::Written);
    }
    let id = cx.args.next()?;
    let next = cx.args.int().inspect_err(|_| {
        let (host, port) = runner.client.replica_address();
        runner.shared.log.warning(format_args!(
            "Replica {host}:{port} asks for synchronization but with a wrong offset"
        ));
    })?;
    if cx.args.keyword("FAILOVER") {
        take_over(runner, cx, id)?;
    }
    may_be_followed(runner)?;
    follow(runner, cx);
    let to = Arc::clone(runner.client) as Arc<dyn Replica>;
    let (host, port) = runner.client.replica_address();
    let log = &runner.shared.log;
    log.notice(format_args!(
        "Replica {host}:{port} asks for synchronization"
    ));
    let start = cx.engine.resume(to, id, next, cx.now);
    if start == SyncStart::Continued {
        replication::judge(runner.shared);
        log.notice(format_args!(
            "Partial resynchronization request from {host}:{port} accepted, from offset {next}."
        ));
    } else {
        match id {
            b"?" => log.notice(format_args!("Full resync requested by replica {host}:{port}")),
            id => log.notice(format_args!(
                "Unable to partial resync with replica {host}:{port} (Replica request was: {}:{next}).",
                id.escape_ascii()
            )),
        }
        replication::begin(runner.shared, runner.client, true);
    }
    Ok(Reply::Written)
}

/// The master asks this server to take its place.
fn take_over(runner: &NodeRunner<'_>, cx: &NodeCx<'_>, id: &[u8]) -> Result<(), CmdError> {
    if !cx.engine.is_replica() {
        return Err(CmdError::err("PSYNC FAILOVER can't be sent to a master."));
    }
    let own = cx.engine.journal_facts().id;
    if !id.eq_ignore_ascii_case(own.as_bytes()) {
        return Err(CmdError::err("PSYNC FAILOVER replid must match my replid."));
    }
    let log = &runner.shared.log;
    log.warning(format_args!("Failover request received for replid {own}."));
    replicaof::become_master(runner.shared, cx.now)?;
    log.notice(format_args!(
        "MASTER MODE enabled (failover request from '{}')",
        runner.shown(cx)
    ));
    Ok(())
}

/// A replica that has no data to pass on says so.
fn may_be_followed(runner: &NodeRunner<'_>) -> Result<(), CmdError> {
    if runner.shared.failover.stage() != failover::Stage::None {
        return Err(CmdError::NoMasterLinkInFailover);
    }
    let link = runner.shared.link.facts();
    if link.master.is_some() && link.stage != Stage::Connected {
        return Err(CmdError::NoMasterLink);
    }
    Ok(())
}

/// The connection is a replica's from now on: it is sent no replies.
fn follow(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) {
    cx.session.follows = true;
    runner.client.follow();
}

pub(super) fn replconf(runner: &NodeRunner<'_>, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let words = cx.args.rest();
    if !words.len().is_multiple_of(2) {
        return Err(CmdError::Syntax);
    }
    for pair in words.chunks_exact(2) {
        let [option, value] = *pair else { continue };
        match &option.to_ascii_lowercase()[..] {
            b"listening-port" => {
                let port = number::parse_i64(value).ok_or(CmdError::NotAnInteger)?;
                let port = u16::try_from(port).map_err(|_| CmdError::OutOfRange)?;
                runner.client.set_replica_port(port);
            }
            b"ip-address" if value.len() < ADDRESS_MAX => {
                let address = String::from_utf8_lossy(value);
                runner.client.set_replica_address(&address);
            }
            b"ip-address" => {
                return Err(CmdError::err(format!(
                    "REPLCONF ip-address provided by replica instance is too long: {} bytes",
                    value.len()
                )));
            }
            b"capa" if value.eq_ignore_ascii_case(ABILITY) => runner.client.know_limiters(),
            b"capa" if value.eq_ignore_ascii_case(b"eof") => runner.client.take_stream(),
            b"capa" => {}
            // Only Valkey's replicas tell theirs.
            b"version" => runner.client.set_valkey(has_own_form(value)?),
            b"rdb-only" => {
                let only = number::parse_i64(value).ok_or(CmdError::NotAnInteger)?;
                if !(0..=1).contains(&only) {
                    return Err(CmdError::err(
                        "value is out of range, value must between 0 and 1",
                    ));
                }
                runner.client.want_data_only(only == 1);
            }
            b"rdb-filter-only" => runner.client.want_part(part_of(value)?),
            b"ack" => {
                let offset = number::parse_i64(value).and_then(|n| u64::try_from(n).ok());
                if let Some(offset) = offset.filter(|_| cx.session.follows) {
                    cx.engine.acknowledge(cx.session.id, offset, cx.now);
                }
                return Ok(Reply::Written);
            }
            // Asked of replicas.
            b"getack" => return Ok(Reply::Written),
            _ => {
                return Err(CmdError::err(
                    [b"Unrecognized REPLCONF option: ", option].concat(),
                ));
            }
        }
    }
    Ok(Reply::Ok)
}

/// Whether a release of Valkey has its own form of hashes whose fields expire.
fn has_own_form(version: &[u8]) -> Result<bool, CmdError> {
    let mut parts = version.split(|&byte| byte == b'.').map(number::parse_i64);
    match [parts.next(), parts.next(), parts.next(), parts.next()] {
        [Some(Some(major)), Some(Some(_)), Some(Some(_)), None] => Ok(major >= FIRST_WITH_OWN_FORM),
        _ => Err(CmdError::err(
            [b"Unrecognized version format: ", version].concat(),
        )),
    }
}

/// The part of the data that a list of words names.
fn part_of(list: &[u8]) -> Result<Part, CmdError> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    split_line(list, |word| words.push(word.to_vec()))
        .map_err(|_| CmdError::err("Missing rdb-filter-only values"))?;
    let foreign = |word: &&Vec<u8>| !word.eq_ignore_ascii_case(b"functions");
    match words.iter().find(foreign) {
        Some(word) => Err(CmdError::err(
            [b"Unsupported rdb-filter-only option: ", &word[..]].concat(),
        )),
        None if words.is_empty() => Ok(Part::Nothing),
        None => Ok(Part::Functions),
    }
}

/// A replica as INFO and ROLE show it.
struct Shown {
    ip: String,
    port: u16,
    state: &'static str,
    offset: u64,
    lag_secs: i64,
}

fn replicas(shared: &Shared, now: Timestamp) -> Vec<Shown> {
    let shown = shared.engine.followers(now).into_iter().filter_map(|it| {
        let client = shared.clients.get(it.id)?;
        let (ip, port) = client.replica_address();
        Some(Shown {
            ip,
            port,
            state: it.state,
            offset: it.acked,
            lag_secs: it.lag_secs,
        })
    });
    shown.collect()
}

pub(super) fn role(shared: &Shared, cx: &mut NodeCx<'_>) -> Reply {
    if let Some(reply) = replicaof::role(shared, cx) {
        return reply;
    }
    let mut replicas = replicas(shared, cx.now);
    replicas.retain(|it| it.state == "online");
    cx.out.array(3);
    cx.out.bulk(b"master");
    cx.out.int(cx.engine.journal_facts().offset as i64);
    cx.out.array(replicas.len());
    for it in replicas {
        cx.out.array(3);
        cx.out.bulk(it.ip.as_bytes());
        cx.out.bulk_int(i64::from(it.port));
        cx.out.bulk_int(it.offset as i64);
    }
    Reply::Written
}

/// The section of INFO.
pub(super) fn info(text: &mut Text, shared: &Shared, now: i64) {
    let facts = shared.engine.journal_facts();
    let replicas = replicas(shared, Timestamp::from_nanos(now));
    let link = shared.link.facts();
    text.line(
        "role",
        if link.master.is_some() {
            "slave"
        } else {
            "master"
        },
    );
    replicaof::info(text, shared, &link, now);
    text.line("connected_slaves", replicas.len());
    let number = |key| shared.settings.get(key).parse().unwrap_or(0);
    let lag = number(Key::MinReplicasMaxLag);
    if number(Key::MinReplicasToWrite) > 0 && lag > 0 {
        let good = shared.engine.good_replicas(lag, Timestamp::from_nanos(now));
        text.line("min_slaves_good_slaves", good);
    }
    for (number, it) in replicas.iter().enumerate() {
        text.line(
            &format!("slave{number}"),
            format_args!(
                "ip={},port={},state={},offset={},lag={}",
                it.ip, it.port, it.state, it.offset, it.lag_secs
            ),
        );
    }
    text.line("master_failover_state", shared.failover.stage().name());
    text.line("master_replid", &facts.id);
    text.line("master_replid2", &facts.before.0);
    text.line("master_repl_offset", facts.offset);
    text.line("second_repl_offset", facts.before.1);
    text.line("repl_backlog_active", u8::from(facts.kept));
    text.line(
        "repl_backlog_size",
        shared.settings.get(Key::ReplBacklogSize),
    );
    text.line("repl_backlog_first_byte_offset", facts.first);
    text.line("repl_backlog_histlen", facts.len);
}

/// The part of INFO's statistics.
pub(super) fn info_syncs(text: &mut Text, shared: &Shared) {
    let (full, partial, refused) = shared.engine.journal_facts().syncs;
    text.line("sync_full", full);
    text.line("sync_partial_ok", partial);
    text.line("sync_partial_err", refused);
}

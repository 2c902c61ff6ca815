//! `stats`.

use super::MEMCACHED_VERSION;
use super::counts::{Count, NAMES};
use super::detail::DELIMITER;
use crate::config::Key;
use crate::conn::{Conn, RespDriver};
use crate::shared::Shared;
use std::fmt::Display;
use std::sync::{MutexGuard, PoisonError};
use tollgate_engine::Overview;
use tollgate_net::{Clock, PeerAddress, process};
use tollgate_wire::memcached::{Detail, Stats};
use tollgate_wire::resp::ReplyBuf;

/// Answers `stats` and its kinds.
pub(super) fn write(driver: &mut RespDriver, conn: &Conn, wanted: Stats) {
    let prefixes = &driver.shared.memcached.prefixes;
    match wanted {
        Stats::Reset => {
            driver.shared.memcached.reset();
            *lock_others(&driver.shared) = counted_by_others(&driver.shared);
            driver.out.raw(b"RESET\r\n");
            return;
        }
        Stats::Detail(wanted @ (Detail::On | Detail::Off)) => {
            prefixes.turn(wanted == Detail::On);
            driver.out.raw(b"OK\r\n");
            return;
        }
        Stats::Detail(Detail::Dump) => prefixes.write(&mut driver.out),
        Stats::General => general(driver),
        Stats::Settings => settings(driver),
        Stats::Items => items(driver),
        Stats::Slabs => slabs(driver),
        // As of a memcached that keeps no histogram of sizes.
        Stats::Sizes => line(&mut driver.out, "sizes_status", "disabled"),
        Stats::Connections => connections(driver, conn),
        // Asked for with the connection at hand, whose user has to be allowed to see keys.
        Stats::Dump { .. } => {}
    }
    driver.out.raw(b"END\r\n");
}

fn line(out: &mut ReplyBuf, name: &str, value: impl Display) {
    out.raw(format!("STAT {name} {value}\r\n").as_bytes());
}

/// Numbers that count up and are not of this protocol alone.
pub(super) const OTHERS: usize = 6;

/// In the order of [`Others`]' fields, since the start.
fn counted_by_others(shared: &Shared) -> [u64; OTHERS] {
    let traffic = shared.metrics.traffic();
    [
        shared.clients.received(),
        shared.clients.rejected(),
        traffic.input,
        traffic.output,
        shared.engine.evicted(),
        shared.engine.stats().expired,
    ]
}

fn lock_others(shared: &Shared) -> MutexGuard<'_, [u64; OTHERS]> {
    let others = shared.memcached.others.lock();
    others.unwrap_or_else(PoisonError::into_inner)
}

/// What others have counted since the start or the last `stats reset`.
struct Others {
    connections: u64,
    rejected: u64,
    input: u64,
    output: u64,
    evicted: u64,
    /// Memory of items that had expired was taken back so often.
    reclaimed: u64,
}

impl Others {
    fn of(shared: &Shared) -> Others {
        let before = *lock_others(shared);
        let now = counted_by_others(shared);
        // CONFIG RESETSTAT sets some of them to 0.
        let [connections, rejected, input, output, evicted, reclaimed] =
            std::array::from_fn(|at| now[at].saturating_sub(before[at]));
        Others {
            connections,
            rejected,
            input,
            output,
            evicted,
            reclaimed,
        }
    }
}

/// Bytes that there would not be without items.
fn bytes_of_items(shared: &Shared, overview: &Overview) -> usize {
    overview.bytes.saturating_sub(shared.engine.bare_memory())
}

fn general(driver: &mut RespDriver) {
    let (out, shared) = (&mut driver.out, &driver.shared);
    let others = Others::of(shared);
    line(out, "pid", std::process::id());
    let uptime = (Clock::monotone() - shared.started) / 1_000_000_000;
    line(out, "uptime", uptime);
    line(out, "time", driver.now / 1_000_000_000);
    line(out, "version", MEMCACHED_VERSION);
    line(out, "tollgate_version", env!("CARGO_PKG_VERSION"));
    line(out, "pointer_size", usize::BITS);
    let cpu = process::cpu_time();
    for (name, micros) in [
        ("rusage_user", cpu.user_us),
        ("rusage_system", cpu.system_us),
    ] {
        let (secs, micros) = (micros / 1_000_000, micros % 1_000_000);
        line(out, name, format_args!("{secs}.{micros:06}"));
    }
    line(out, "max_connections", shared.settings.max_clients());
    let clients = shared.clients.count();
    line(out, "curr_connections", clients);
    line(out, "connection_structures", clients);
    line(out, "total_connections", others.connections);
    line(out, "rejected_connections", others.rejected);
    for (name, count) in NAMES.iter().zip(shared.memcached.totals()) {
        line(out, name, count);
    }
    line(out, "bytes_read", others.input);
    line(out, "bytes_written", others.output);
    line(out, "limit_maxbytes", shared.engine.limits().maxmemory());
    line(out, "accepting_conns", 1);
    // Above `maxclients` connections are refused, as with `maxconns_fast`; nobody stops listening.
    line(out, "listen_disabled_num", 0);
    line(out, "time_in_listen_disabled_us", 0);
    line(out, "threads", shared.threads);
    let overview = shared.engine.overview(None);
    line(out, "bytes", bytes_of_items(shared, &overview));
    line(out, "curr_items", overview.databases[0].keys);
    line(out, "evictions", others.evicted);
    line(out, "reclaimed", others.reclaimed);
}

fn settings(driver: &mut RespDriver) {
    let (out, shared) = (&mut driver.out, &driver.shared);
    let settings = &shared.settings;
    line(out, "maxbytes", shared.engine.limits().maxmemory());
    line(out, "maxconns", settings.max_clients());
    line(out, "tcpport", settings.get(Key::MemcachedPort));
    line(out, "udpport", 0);
    line(out, "inter", settings.get(Key::Bind));
    // As many `-v` as would tell about as much.
    let verbosity = match &*settings.get(Key::Loglevel) {
        "debug" => 2,
        "verbose" => 1,
        _ => 0,
    };
    line(out, "verbosity", verbosity);
    let socket = settings.get(Key::MemcachedUnixSocket);
    let socket = if socket.is_empty() { "NULL" } else { &*socket };
    line(out, "domain_socket", socket);
    line(out, "umask", settings.get(Key::UnixSocketPerm));
    line(out, "maxconns_fast", "yes");
    let evicts = &*settings.get(Key::MaxMemoryPolicy) != "noeviction";
    line(out, "evictions", if evicts { "on" } else { "off" });
    line(out, "shutdown_command", "no");
    line(out, "num_threads", shared.threads);
    line(out, "stat_key_prefix", char::from(DELIMITER));
    let detailed = yes_or_no(shared.memcached.prefixes.is_on());
    line(out, "detail_enabled", detailed);
    line(out, "cas_enabled", "yes");
    line(out, "tcp_backlog", settings.get(Key::TcpBacklog));
    line(out, "binding_protocol", "auto-negotiate");
    let with_password = yes_or_no(!shared.engine.access().is_open());
    line(out, "auth_enabled_sasl", with_password);
    line(out, "auth_enabled_ascii", with_password);
    line(out, "item_size_max", shared.memcached.item_max);
    line(out, "flush_enabled", "yes");
    line(out, "dump_enabled", "yes");
    line(out, "idle_timeout", settings.timeout_secs());
    let crawls = shared.memcached.crawler.is_enabled();
    line(out, "lru_crawler", yes_or_no(crawls));
    // Those parts of memcached are not here.
    for absent in [
        "slab_reassign",
        "lru_maintainer_thread",
        "lru_segmented",
        "temp_lru",
        "track_sizes",
        "ssl_enabled",
    ] {
        line(out, absent, "no");
    }
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// All items are of one class: there are no slabs.
fn items(driver: &mut RespDriver) {
    let (out, shared) = (&mut driver.out, &driver.shared);
    let overview = shared.engine.overview(None);
    let items = overview.databases[0].keys;
    if items == 0 {
        return;
    }
    let totals = shared.memcached.totals();
    let others = Others::of(shared);
    for (name, value) in [
        ("number", items as u64),
        ("mem_requested", bytes_of_items(shared, &overview) as u64),
        ("evicted", others.evicted),
        ("outofmemory", totals[Count::StoreNoMemory as usize]),
        ("reclaimed", others.reclaimed),
    ] {
        line(out, &format!("items:1:{name}"), value);
    }
}

/// What is told of a class beside its size.
const USES: [Count; 8] = [
    Count::GetHits,
    Count::CmdSet,
    Count::DeleteHits,
    Count::IncrHits,
    Count::DecrHits,
    Count::CasHits,
    Count::CasBadval,
    Count::TouchHits,
];

/// Each item is a chunk of its own.
fn slabs(driver: &mut RespDriver) {
    let (out, shared) = (&mut driver.out, &driver.shared);
    let overview = shared.engine.overview(None);
    let items = overview.databases[0].keys;
    if items > 0 {
        line(out, "1:total_chunks", items);
        line(out, "1:used_chunks", items);
        line(out, "1:free_chunks", 0);
        line(out, "1:mem_requested", bytes_of_items(shared, &overview));
        let totals = shared.memcached.totals();
        for count in USES {
            let at = count as usize;
            line(out, &format!("1:{}", NAMES[at]), totals[at]);
        }
    }
    line(out, "active_slabs", u8::from(items > 0));
    line(out, "total_malloced", overview.bytes);
}

fn connections(driver: &mut RespDriver, conn: &Conn) {
    let (out, shared) = (&mut driver.out, &driver.shared);
    for client in shared.clients.all() {
        if !client.is_memcached() {
            continue;
        }
        let idle = (driver.now - client.last_seen()).max(0) / 1_000_000_000;
        let state = match client.id == conn.client.id {
            true => "conn_parse_cmd",
            false => "conn_read",
        };
        let name = |what| format!("{}:{what}", client.id);
        line(out, &name("addr"), address(&client.peer.remote));
        line(out, &name("listen_addr"), address(&client.peer.local));
        line(out, &name("state"), state);
        line(out, &name("secs_since_last_cmd"), idle);
    }
}

fn address(end: &PeerAddress) -> String {
    match end {
        PeerAddress::Tcp(address) if address.is_ipv6() => format!("tcp6:{address}"),
        PeerAddress::Tcp(address) => format!("tcp:{address}"),
        PeerAddress::Unix(path) => format!("unix:{path}"),
    }
}

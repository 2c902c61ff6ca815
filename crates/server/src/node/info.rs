//! INFO: every line is a measurement or a fact of this process; what is not measured is not printed.

use super::auth;
use super::info_facts::{self, Facts};
use super::observe;
use crate::config::Key;
use crate::daemon::supervisor_name;
use crate::listening;
use crate::shared::Shared;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;
use tollgate_commands::acl::DenialReason;
use tollgate_commands::{CmdError, Reply};
use tollgate_engine::{NodeCx, REDIS_VERSION};
use tollgate_limiter::Timestamp;
use tollgate_net::tls::TlsAcceptor;
use tollgate_net::{Clock, PeerAddress, process};

struct Section {
    name: &'static str,
    title: &'static str,
    /// Printed when no section is asked for.
    by_default: bool,
    write: fn(&mut Text, &Shared, i64),
}

const fn section(
    name: &'static str,
    title: &'static str,
    write: fn(&mut Text, &Shared, i64),
) -> Section {
    Section {
        name,
        title,
        by_default: true,
        write,
    }
}

static SECTIONS: &[Section] = &[
    section("server", "Server", server),
    section("clients", "Clients", clients),
    section("memory", "Memory", memory),
    section("persistence", "Persistence", persistence),
    section("stats", "Stats", stats),
    section("replication", "Replication", super::replication::info),
    section("cpu", "CPU", cpu),
    section("modules", "Modules", |_, _, _| {}),
    Section {
        by_default: false,
        ..section("commandstats", "Commandstats", commandstats)
    },
    section("errorstats", "Errorstats", errorstats),
    Section {
        by_default: false,
        ..section("latencystats", "Latencystats", latencystats)
    },
    section("cluster", "Cluster", cluster),
    section("keyspace", "Keyspace", keyspace),
    section("hotkeys", "Hotkeys", super::hotkeys::info),
];

pub(super) fn info(shared: &Shared, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let words = cx.args.rest();
    let wanted = |section: &Section| {
        (words.is_empty() && section.by_default)
            || words.iter().any(|word| {
                let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
                is(section.name)
                    || is("all")
                    || is("everything")
                    || (section.by_default && is("default"))
            })
    };
    let mut text = Text(String::with_capacity(4096));
    for section in SECTIONS.iter().filter(|section| wanted(section)) {
        if !text.0.is_empty() {
            text.0.push_str("\r\n");
        }
        text.0.push_str("# ");
        text.0.push_str(section.title);
        text.0.push_str("\r\n");
        (section.write)(&mut text, shared, cx.now.nanos());
    }
    cx.out.verbatim("txt", text.0.as_bytes());
    Ok(Reply::Written)
}

pub(super) struct Text(String);

impl Text {
    pub(super) fn line(&mut self, name: &str, value: impl Display) {
        write!(self.0, "{name}:{value}\r\n").expect("writing to a String cannot fail");
    }

    fn facts(&mut self, facts: Facts) {
        facts
            .iter()
            .for_each(|(name, value)| self.line(name, value));
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, name: &str, value: u64) {
        self.line(name, value);
        self.line(&format!("{name}_human"), human(value));
    }
}

/// As Redis prints bytes for people.
fn human(bytes: u64) -> String {
    let value = bytes as f64;
    for (power, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << power {
            return format!("{:.2}{unit}", value / (1u64 << power) as f64);
        }
    }
    format!("{bytes}B")
}

fn server(text: &mut Text, shared: &Shared, now: i64) {
    let uptime = (Clock::monotone() - shared.started) / 1_000_000_000;
    text.line("redis_version", REDIS_VERSION);
    text.line("tollgate_version", env!("CARGO_PKG_VERSION"));
    text.facts(info_facts::BUILD);
    text.line("redis_mode", auth::mode(&shared.engine));
    text.line("os", process::system_name());
    text.line("arch_bits", usize::BITS);
    text.line("monotonic_clock", "POSIX clock_gettime");
    text.line("multiplexing_api", shared.backend);
    text.line("atomicvar_api", "rust");
    text.line("process_id", std::process::id());
    let supervised = shared.settings.get(Key::Supervised);
    text.line("process_supervised", supervisor_name(&supervised));
    text.line("run_id", &shared.run_id);
    text.line("tcp_port", shared.settings.get(Key::Port));
    if let Some(expiry) = shared.tls.get().and_then(TlsAcceptor::expiry) {
        // By the name that Valkey 9.1 has for it.
        text.line(
            "tls_server_cert_expires_in_seconds",
            expiry - now / 1_000_000_000,
        );
    }
    text.line("server_time_usec", now / 1_000);
    text.line("uptime_in_seconds", uptime);
    text.line("uptime_in_days", uptime / 86_400);
    text.line("hz", shared.settings.hz());
    text.line("configured_hz", shared.settings.hz());
    text.line("lru_clock", (now / 1_000_000_000) & 0xff_ffff);
    let executable =
        std::env::current_exe().map_or(String::new(), |path| path.display().to_string());
    text.line("executable", executable);
    let file = shared.settings.file.as_ref();
    text.line(
        "config_file",
        file.map_or(String::new(), |path| path.display().to_string()),
    );
    text.line("io_threads_active", u8::from(shared.threads > 1));
    text.line("threads", shared.threads);
    text.line("shards", shared.engine.shard_count());
    listeners(text, shared);
    if let Some(until_ms) = shared.ending.until_ms() {
        let left = (until_ms - now / 1_000_000).max(0);
        text.line("shutdown_in_milliseconds", left);
    }
}

fn listeners(text: &mut Text, shared: &Shared) {
    for (i, (address, kind)) in shared.listeners.addresses().iter().enumerate() {
        let name = match (*kind, address) {
            (listening::MEMCACHED, _) => "memcached",
            (listening::TLS, _) => "tls",
            (_, PeerAddress::Tcp(_)) => "tcp",
            (_, PeerAddress::Unix(_)) => "unix",
        };
        let listener = match address {
            PeerAddress::Tcp(address) => {
                format!("name={name},bind={},port={}", address.ip(), address.port())
            }
            PeerAddress::Unix(path) => format!("name={name},bind={path}"),
        };
        text.line(&format!("listener{i}"), listener);
    }
}

fn clients(text: &mut Text, shared: &Shared, _: i64) {
    let clients = shared.clients.all();
    let replicas = clients.iter().filter(|client| client.is_replica()).count();
    // Who is being killed is gone for everybody.
    text.line("connected_clients", clients.len() - replicas);
    text.line("cluster_connections", 0);
    text.line("maxclients", shared.settings.max_clients());
    text.line(
        "blocked_clients",
        shared.engine.blocked_clients() + shared.engine.pause().waiting() + shared.ending.waiting(),
    );
    let [tracking, ..] = shared.engine.tracking().counts();
    text.line("tracking_clients", tracking);
}

fn memory(text: &mut Text, shared: &Shared, _: i64) {
    let resident = shared.resident();
    let dataset = shared.engine.overview(None).bytes as u64;
    let clients = shared.client_memory();
    let (scripts, script_bytes) = shared.engine.script_cache();
    let journal = shared.engine.journal_facts();
    // What waits for replicas beyond the backlog.
    let waiting = shared.replica_memory(&journal);
    let used = dataset + clients as u64 + script_bytes as u64 + journal.memory_bytes + waiting;
    text.bytes("used_memory", used);
    text.bytes("used_memory_rss", resident);
    let peak = shared.metrics.used_peak(used);
    text.bytes("used_memory_peak", peak);
    let part = used as f64 * 100.0 / peak.max(1) as f64;
    text.line("used_memory_peak_perc", format_args!("{part:.2}%"));
    text.bytes(
        "used_memory_peak_rss",
        shared.memory_peak.load(Ordering::Relaxed),
    );
    text.line("used_memory_overhead", used.saturating_sub(dataset));
    text.line("used_memory_startup", 0);
    text.line("used_memory_dataset", dataset);
    let share = dataset as f64 * 100.0 / used.max(1) as f64;
    text.line("used_memory_dataset_perc", format_args!("{share:.2}%"));
    text.bytes(
        "total_system_memory",
        process::machine_memory().unwrap_or_default(),
    );
    memory_of_scripts(text, shared, (scripts, script_bytes as u64));
    text.bytes(
        "maxmemory",
        shared.engine.limits().maxmemory().max(0) as u64,
    );
    text.line(
        "maxmemory_policy",
        shared.settings.get(Key::MaxMemoryPolicy),
    );
    if used > 0 {
        text.line(
            "mem_fragmentation_ratio",
            format!("{:.2}", resident as f64 / used as f64),
        );
    }
    text.line("mem_fragmentation_bytes", resident as i64 - used as i64);
    text.line("mem_not_counted_for_evict", waiting);
    text.line("mem_replication_backlog", journal.memory_bytes);
    text.line(
        "mem_total_replication_buffers",
        journal.memory_bytes + waiting,
    );
    text.line("mem_clients_slaves", waiting);
    text.line("mem_clients_normal", clients);
    text.line("mem_cluster_links", 0);
    text.line("mem_aof_buffer", shared.aof.buffered(shared));
    // There is one allocator, which does not tell of itself, and moves nothing.
    text.line("mem_allocator", "mimalloc");
    text.line("active_defrag_running", 0);
    let (pending, freed) = shared.engine.lazily_freed();
    text.line("lazyfree_pending_objects", pending);
    text.line("lazyfreed_objects", freed);
}

/// Functions run in the Lua states of other scripts: a state is told of once, as one of functions when it holds some.
fn memory_of_scripts(text: &mut Text, shared: &Shared, (scripts, bytes): (usize, u64)) {
    let [states, with_functions] = (shared.engine.script_states_bytes()).map(|bytes| bytes as u64);
    let (libraries, functions) = shared.engine.function_counts();
    let codes = shared.engine.function_codes();
    let code_bytes: u64 = codes.iter().map(|code| code.len() as u64).sum();
    text.line("used_memory_lua", states);
    text.line("used_memory_vm_eval", states);
    text.line("used_memory_lua_human", human(states));
    text.line("used_memory_scripts_eval", bytes);
    text.line("number_of_cached_scripts", scripts);
    text.line("number_of_functions", functions);
    text.line("number_of_libraries", libraries);
    text.line("used_memory_vm_functions", with_functions);
    text.bytes("used_memory_vm_total", states + with_functions);
    text.line("used_memory_functions", code_bytes);
    text.bytes("used_memory_scripts", bytes + code_bytes);
}

fn persistence(text: &mut Text, shared: &Shared, now: i64) {
    let snapshot = shared.snapshot.facts();
    let progress = shared.engine.snapshot_progress();
    let part = |all: u64| 100.0 * progress.entries.min(all) as f64 / all.max(1) as f64;
    text.line("loading", u8::from(shared.engine.is_loading()));
    text.line("async_loading", 0);
    // Nothing is forked: this is what commands had to hand over before they changed it.
    text.line("current_cow_peak", progress.handed_peak_bytes);
    text.line("current_cow_size", progress.handed_bytes);
    text.line("current_cow_size_age", 0);
    text.line(
        "current_fork_perc",
        format_args!("{:.2}", part(progress.all_entries)),
    );
    text.line("current_save_keys_processed", progress.entries);
    text.line("current_save_keys_total", progress.all_entries);
    text.line(
        "rdb_changes_since_last_save",
        shared
            .engine
            .changes()
            .saturating_sub(snapshot.changes_at_save),
    );
    text.line(
        "rdb_bgsave_in_progress",
        u8::from(shared.snapshot.is_busy(shared)),
    );
    text.line("rdb_last_save_time", snapshot.last_save_secs);
    text.line(
        "rdb_last_bgsave_status",
        if snapshot.last_failed { "err" } else { "ok" },
    );
    text.line("rdb_last_bgsave_time_sec", snapshot.last_secs.unwrap_or(-1));
    let since = |began| (Clock::monotone() - began) / 1_000_000_000;
    text.line(
        "rdb_current_bgsave_time_sec",
        snapshot.began.map_or(-1, since),
    );
    text.line("rdb_saves", snapshot.saves);
    text.line("rdb_last_cow_size", snapshot.last_handed_bytes);
    text.line("rdb_last_load_keys_expired", snapshot.keys_expired);
    text.line("rdb_last_load_keys_loaded", snapshot.keys_loaded);
    append_only_file(text, shared);
    if let Some(facts) = shared.loading.facts() {
        let loaded = facts.loaded_bytes as f64 * 100.0 / facts.total_bytes as f64;
        text.line("loading_start_time", facts.began_secs);
        text.line("loading_total_bytes", facts.total_bytes);
        text.line("loading_loaded_bytes", facts.loaded_bytes);
        text.line("loading_loaded_perc", format_args!("{loaded:.2}"));
        if let Some(secs) = facts.left_secs(now / 1_000_000_000) {
            text.line("loading_eta_seconds", secs);
        }
    }
}

fn append_only_file(text: &mut Text, shared: &Shared) {
    let facts = shared.aof.facts();
    let word = |failed| if failed { "err" } else { "ok" };
    let flag = u8::from;
    text.line("aof_enabled", flag(shared.aof.is_on()));
    text.line("aof_rewrite_in_progress", flag(shared.aof.is_rewriting()));
    text.line("aof_rewrite_scheduled", flag(facts.scheduled));
    text.line(
        "aof_last_rewrite_time_sec",
        facts.last_rewrite_secs.unwrap_or(-1),
    );
    let since = |began| (Clock::monotone() - began) / 1_000_000_000;
    text.line(
        "aof_current_rewrite_time_sec",
        facts.rewrite_began.map_or(-1, since),
    );
    text.line("aof_last_bgrewrite_status", word(facts.rewrite_failed));
    text.line("aof_rewrites", facts.rewrites);
    text.line("aof_rewrites_consecutive_failures", facts.failures_in_row);
    text.line(
        "aof_last_write_status",
        word(facts.write_failed || facts.sync_failed),
    );
    // Nothing is forked.
    text.line("aof_last_cow_size", 0);
    // There are no modules.
    text.line("module_fork_in_progress", 0);
    text.line("module_fork_last_cow_size", 0);
    if shared.aof.is_on() {
        text.line("aof_current_size", facts.size);
        text.line("aof_base_size", facts.base_size);
        text.line(
            "aof_pending_rewrite",
            flag(facts.scheduled || facts.starting),
        );
        text.line("aof_buffer_length", shared.aof.buffered(shared));
        let log = shared.engine.log_facts();
        text.line("aof_pending_bio_fsync", flag(log.synced < log.written));
        // The thread that syncs is the one that writes: what comes meanwhile waits in memory.
        text.line("aof_delayed_fsync", 0);
    }
}

fn stats(text: &mut Text, shared: &Shared, now: i64) {
    let stats = shared.engine.stats();
    let traffic = shared.metrics.traffic();
    text.line("total_connections_received", shared.clients.received());
    text.line("total_commands_processed", stats.commands);
    stats_of_bytes(text, shared, now);
    text.line("rejected_connections", shared.clients.rejected());
    super::replication::info_syncs(text, shared);
    text.line("expired_keys", stats.expired);
    text.line("expired_subkeys", stats.expired_fields);
    let expiry = &shared.metrics.expiry;
    text.line(
        "expired_stale_perc",
        format_args!("{:.2}", expiry.stale_perc()),
    );
    text.line("expired_time_cap_reached_count", expiry.cut_short());
    text.line(
        "expire_cycle_cpu_milliseconds",
        traffic.expiry_nanos / 1_000_000,
    );
    text.line("evicted_keys", shared.engine.evicted());
    text.line("evicted_clients", shared.clients.budget().evicted());
    let (total_ms, current_ms) = shared.engine.exceeded_ms(Clock::monotone());
    text.line("total_eviction_exceeded_time", total_ms);
    text.line("current_eviction_exceeded_time", current_ms);
    text.line("refused_limiters", shared.engine.refused_limiters());
    text.line("keyspace_hits", stats.hits);
    text.line("keyspace_misses", stats.misses);
    let (channels, patterns, shard_channels) = shared.engine.pubsub().counts();
    text.line("pubsub_channels", channels);
    text.line("pubsub_patterns", patterns);
    text.line("pubsubshard_channels", shard_channels);
    text.line("latest_fork_usec", 0);
    // What Redis forks for; its tests wait for these.
    let forks = shared.snapshot.facts().background_saves + shared.aof.facts().rewrites;
    text.line("total_forks", forks);
    text.line("migrate_cached_sockets", 0);
    text.line("slave_expires_tracked_keys", shared.engine.own_expiring());
    text.facts(info_facts::DEFRAGMENTATION);
    let [_, keys, items, prefixes] = shared.engine.tracking().counts();
    text.line("tracking_total_keys", keys);
    text.line("tracking_total_items", items);
    text.line("tracking_total_prefixes", prefixes);
    let unexpected = shared.metrics.unexpected_errors.load(Ordering::Relaxed);
    text.line("unexpected_error_replies", unexpected);
    text.line("total_error_replies", shared.metrics.errors().0);
    text.line("total_reads_processed", traffic.reads);
    text.line("total_writes_processed", traffic.writes);
    text.line(
        "client_output_buffer_limit_disconnections",
        shared.clients.dropped(),
    );
    for (name, reason) in [
        ("acl_access_denied_auth", DenialReason::Auth),
        ("acl_access_denied_cmd", DenialReason::Command),
        ("acl_access_denied_key", DenialReason::Key),
        ("acl_access_denied_channel", DenialReason::Channel),
    ] {
        text.line(name, shared.engine.access().denials(reason));
    }
}

fn stats_of_bytes(text: &mut Text, shared: &Shared, now: i64) {
    let traffic = shared.metrics.traffic();
    let replication = shared.replication_bytes();
    let rates = shared.metrics.rates(now, replication);
    let kilobytes = |rate: f64| format!("{rate:.2}");
    text.line("instantaneous_ops_per_sec", rates.commands);
    text.line("total_net_input_bytes", traffic.input);
    text.line("total_net_output_bytes", traffic.output);
    text.line("total_net_repl_input_bytes", replication.input);
    text.line("total_net_repl_output_bytes", replication.output);
    text.line("instantaneous_input_kbps", kilobytes(rates.input_kb));
    text.line("instantaneous_output_kbps", kilobytes(rates.output_kb));
    text.line(
        "instantaneous_input_repl_kbps",
        kilobytes(rates.repl_input_kb),
    );
    text.line(
        "instantaneous_output_repl_kbps",
        kilobytes(rates.repl_output_kb),
    );
}

fn cpu(text: &mut Text, _: &Shared, _: i64) {
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let (own, children) = (process::cpu_time(), process::children_cpu_time());
    text.line("used_cpu_sys", seconds(own.system_us));
    text.line("used_cpu_user", seconds(own.user_us));
    text.line("used_cpu_sys_children", seconds(children.system_us));
    text.line("used_cpu_user_children", seconds(children.user_us));
    if let Some(main) = process::main_thread_cpu_time() {
        text.line("used_cpu_sys_main_thread", seconds(main.system_us));
        text.line("used_cpu_user_main_thread", seconds(main.user_us));
    }
}

fn commandstats(text: &mut Text, shared: &Shared, _: i64) {
    for command in shared.engine.stats().by_command {
        let per_call = command.usec as f64 / command.calls.max(1) as f64;
        text.line(
            &format!("cmdstat_{}", command.row.name.to_ascii_lowercase()),
            format_args!(
                "calls={},usec={},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
                command.calls, command.usec, command.rejected, command.failed
            ),
        );
    }
}

/// Percentiles of the times of each command, in microseconds.
fn latencystats(text: &mut Text, shared: &Shared, _: i64) {
    let percentiles = shared.settings.get(Key::LatencyTrackingInfoPercentiles);
    if &*shared.settings.get(Key::LatencyTracking) == "no" {
        return;
    }
    for command in shared.engine.stats().by_command {
        if command.times.iter().all(|&count| count == 0) {
            continue;
        }
        let shown: Vec<String> = percentiles
            .split(' ')
            .filter_map(|word| {
                let time = observe::percentile(&command, word.parse().ok()?);
                Some(format!("p{word}={time:.3}"))
            })
            .collect();
        let name = command.row.name.to_ascii_lowercase();
        text.line(&format!("latency_percentiles_usec_{name}"), shown.join(","));
    }
}

fn errorstats(text: &mut Text, shared: &Shared, _: i64) {
    for (code, count) in shared.metrics.errors().1 {
        text.line(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn cluster(text: &mut Text, shared: &Shared, _: i64) {
    let is_on = shared.engine.cluster().is_on();
    text.line("cluster_enabled", u8::from(is_on));
}

fn keyspace(text: &mut Text, shared: &Shared, now: i64) {
    let overview = shared.engine.overview(Some(Timestamp::from_nanos(now)));
    let databases = overview.databases.iter().zip(&overview.ttls);
    for (i, (size, ttls)) in databases.enumerate().filter(|(_, (size, _))| size.keys > 0) {
        text.line(
            &format!("db{i}"),
            format_args!(
                "keys={},expires={},avg_ttl={}",
                size.keys,
                size.expiring,
                ttls.average_ms()
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_people_as_redis_prints_them() {
        for (bytes, text) in [
            (0, "0B"),
            (1_023, "1023B"),
            (1_024, "1.00K"),
            (1_214_304, "1.16M"),
            (25_276_510_208, "23.54G"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn section_names_are_unique_and_lower_case() {
        for (i, section) in SECTIONS.iter().enumerate() {
            assert_eq!(section.name, section.title.to_ascii_lowercase());
            assert!(
                SECTIONS[i + 1..]
                    .iter()
                    .all(|other| other.name != section.name)
            );
        }
    }
}

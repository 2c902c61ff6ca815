//! What matters of each system to somebody who moves a rate limiter to or from it.

use super::super::lang::Text;

/// A system that a limiter runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum System {
    /// Redis (6 and later).
    #[value(alias = "redis-server")]
    Redis,
    /// Valkey.
    #[value(alias = "valkey-server")]
    Valkey,
    /// Dragonfly.
    Dragonfly,
    /// envoyproxy/ratelimit, the reference rate limit service.
    EnvoyproxyRatelimit,
    /// memcached.
    Memcached,
    /// Tollgate.
    Tollgate,
}

/// Number of [`TOPICS`].
pub(super) const TOPIC_COUNT: usize = 9;
/// Number of [`SETTINGS`].
pub(super) const SETTING_COUNT: usize = 10;

/// Facts about a system, one per topic and per setting.
pub(super) struct Facts {
    pub(super) system: System,
    pub(super) name: &'static str,
    /// The target of the bench with this name, and its aliases.
    pub(super) targets: &'static [&'static str],
    pub(super) topics: [Text; TOPIC_COUNT],
    pub(super) settings: [&'static str; SETTING_COUNT],
    /// How clients are pointed at it.
    pub(super) address: Text,
}

const fn same(text: &'static str) -> Text {
    Text { en: text, vi: text }
}

const fn text(en: &'static str, vi: &'static str) -> Text {
    Text { en, vi }
}

/// Rows of the table of differences.
pub(super) const TOPICS: [Text; TOPIC_COUNT] = [
    text("protocol", "giao thức"),
    text("scripts", "script"),
    text("keys in scripts", "khóa trong script"),
    text("functions", "hàm (FUNCTION)"),
    text("limiters built in", "bộ giới hạn có sẵn"),
    text("cores used for one node", "số lõi một nút dùng"),
    text("one hot key", "một khóa nóng"),
    text("memory full", "khi đầy bộ nhớ"),
    text("metrics", "số đo"),
];

/// Rows of the table of settings.
pub(super) const SETTINGS: [Text; SETTING_COUNT] = [
    text("port", "cổng"),
    text("listen address", "địa chỉ nghe"),
    text("password", "mật khẩu"),
    text("memory limit", "giới hạn bộ nhớ"),
    text("no eviction of counters", "không trục xuất bộ đếm"),
    text("threads", "số luồng"),
    text("most connections", "số kết nối tối đa"),
    text("no persistence", "không lưu bền"),
    text("TLS", "TLS"),
    text("limits", "các giới hạn"),
];

const IN_SCRIPT: &str = "in the script's arguments";

/// The systems.
pub(super) const SYSTEMS: [Facts; 6] = [
    Facts {
        system: System::Redis,
        name: "Redis",
        targets: &["redis", "redis-server"],
        topics: [
            same("RESP2, RESP3"),
            same("EVAL, EVALSHA (Lua 5.1), `redis.call`"),
            text(
                "undeclared keys work on a single node, not in a cluster",
                "khóa không khai báo chạy được trên một nút, không chạy trong cụm",
            ),
            same("FUNCTION LOAD, FCALL (7.0+)"),
            text(
                "none up to 8.6; redis-cell adds CL.THROTTLE; INCREX from 8.8",
                "không có đến 8.6; redis-cell thêm CL.THROTTLE; INCREX từ 8.8",
            ),
            text(
                "one for commands; `io-threads` for reading and writing",
                "một lõi cho lệnh; `io-threads` cho đọc và ghi",
            ),
            text(
                "served by the one command thread",
                "do luồng lệnh duy nhất phục vụ",
            ),
            text(
                "by `maxmemory-policy`; an evicted counter admits too much",
                "theo `maxmemory-policy`; bộ đếm bị trục xuất cho qua quá nhiều",
            ),
            same("INFO, redis_exporter"),
        ],
        settings: [
            "`port 6379`",
            "`bind`",
            "`requirepass`",
            "`maxmemory`",
            "`maxmemory-policy noeviction`",
            "`io-threads`",
            "`maxclients`",
            "`save \"\"`, `appendonly no`",
            "`tls-port`, `tls-cert-file`, `tls-key-file`",
            IN_SCRIPT,
        ],
        address: same("redis://HOST:6379"),
    },
    Facts {
        system: System::Valkey,
        name: "Valkey",
        targets: &["valkey", "valkey-server"],
        topics: [
            same("RESP2, RESP3"),
            same("EVAL, EVALSHA (Lua 5.1), `redis.call` = `server.call`"),
            text(
                "undeclared keys work on a single node, not in a cluster",
                "khóa không khai báo chạy được trên một nút, không chạy trong cụm",
            ),
            same("FUNCTION LOAD, FCALL"),
            text("none; INCREX from 9.2", "không có; INCREX từ 9.2"),
            text(
                "one for commands; `io-threads` for reading and writing",
                "một lõi cho lệnh; `io-threads` cho đọc và ghi",
            ),
            text(
                "served by the one command thread",
                "do luồng lệnh duy nhất phục vụ",
            ),
            text(
                "by `maxmemory-policy`; an evicted counter admits too much",
                "theo `maxmemory-policy`; bộ đếm bị trục xuất cho qua quá nhiều",
            ),
            same("INFO, redis_exporter"),
        ],
        settings: [
            "`port 6379`",
            "`bind`",
            "`requirepass`",
            "`maxmemory`",
            "`maxmemory-policy noeviction`",
            "`io-threads`",
            "`maxclients`",
            "`save \"\"`, `appendonly no`",
            "`tls-port`, `tls-cert-file`, `tls-key-file`",
            IN_SCRIPT,
        ],
        address: same("redis://HOST:6379"),
    },
    Facts {
        system: System::Dragonfly,
        name: "Dragonfly",
        targets: &["dragonfly"],
        topics: [
            same("RESP2, RESP3, memcached"),
            same("EVAL, EVALSHA (Lua 5.4), `redis.call`"),
            text(
                "undeclared keys are refused unless `--default_lua_flags=allow-undeclared-keys`, which takes a global lock",
                "từ chối khóa không khai báo, trừ khi đặt `--default_lua_flags=allow-undeclared-keys` (dùng khóa toàn cục)",
            ),
            text(
                "FUNCTION FLUSH only; no FCALL",
                "chỉ có FUNCTION FLUSH; không có FCALL",
            ),
            same("CL.THROTTLE"),
            text("all: `--proactor_threads`", "tất cả: `--proactor_threads`"),
            text(
                "served by the one thread that owns it",
                "do một luồng sở hữu khóa phục vụ",
            ),
            text(
                "refuses writes; `--cache_mode` evicts, and an evicted counter admits too much",
                "từ chối ghi; `--cache_mode` sẽ trục xuất, và bộ đếm bị trục xuất cho qua quá nhiều",
            ),
            text(
                "INFO, redis_exporter, own /metrics on the same port",
                "INFO, redis_exporter, /metrics riêng trên cùng cổng",
            ),
        ],
        settings: [
            "`--port=6379`",
            "`--bind`",
            "`--requirepass`",
            "`--maxmemory`",
            "`--cache_mode=false`",
            "`--proactor_threads`",
            "`--maxclients`",
            "`--dbfilename=`",
            "`--tls`, `--tls_cert_file`, `--tls_key_file`",
            IN_SCRIPT,
        ],
        address: same("redis://HOST:6379"),
    },
    Facts {
        system: System::EnvoyproxyRatelimit,
        name: "envoyproxy/ratelimit",
        targets: &["envoyproxy-ratelimit", "ratelimit"],
        topics: [
            same("gRPC `envoy.service.ratelimit.v3`, HTTP `/json`"),
            text(
                "none: INCRBY and EXPIRE sent to Redis in a pipeline",
                "không có: gửi INCRBY và EXPIRE đến Redis trong một pipeline",
            ),
            text(
                "keys are `domain_key_value_…_<window start>`",
                "khóa có dạng `domain_key_value_…_<đầu cửa sổ>`",
            ),
            text("none", "không có"),
            text(
                "fixed window by the clock, in YAML",
                "cửa sổ cố định theo đồng hồ, viết bằng YAML",
            ),
            text(
                "all for the service; the store behind it has its own",
                "tất cả cho dịch vụ; store phía sau có giới hạn riêng",
            ),
            text(
                "a local cache of denials: `LOCAL_CACHE_SIZE_IN_BYTES`",
                "cache cục bộ cho lệnh từ chối: `LOCAL_CACHE_SIZE_IN_BYTES`",
            ),
            text("as the store behind it", "như store phía sau"),
            text(
                "statsd, or Prometheus with `USE_PROMETHEUS=true` on `:9090/metrics`",
                "statsd, hoặc Prometheus với `USE_PROMETHEUS=true` tại `:9090/metrics`",
            ),
        ],
        settings: [
            "`GRPC_PORT=8081`, `PORT=8080`",
            "`HOST`, `GRPC_HOST`",
            "`REDIS_AUTH` (of the store)",
            "of the store",
            "of the store",
            "`GOMAXPROCS`",
            "`REDIS_POOL_SIZE` (to the store)",
            "of the store",
            "`GRPC_SERVER_USE_TLS`, `GRPC_SERVER_TLS_CERT`, `GRPC_SERVER_TLS_KEY`",
            "`RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/config/*.yaml`",
        ],
        address: same("rate_limit_service: grpc HOST:8081"),
    },
    Facts {
        system: System::Memcached,
        name: "memcached",
        targets: &["memcached"],
        topics: [
            text(
                "memcached text, meta commands",
                "memcached dạng văn bản, lệnh meta",
            ),
            text(
                "none: `add` and `incr` from the client, two trips at a window's start",
                "không có: client gửi `add` và `incr`, hai lượt khi bắt đầu cửa sổ",
            ),
            text("one key per command", "mỗi lệnh một khóa"),
            text("none", "không có"),
            text(
                "none: a fixed window out of `incr`; a denied request still counts",
                "không có: cửa sổ cố định từ `incr`; yêu cầu bị từ chối vẫn bị tính",
            ),
            same("`-t`"),
            text("one item lock", "một khóa mục (item lock)"),
            text(
                "always evicts by age: counters may go early and admit too much",
                "luôn trục xuất theo tuổi: bộ đếm có thể mất sớm và cho qua quá nhiều",
            ),
            same("`stats`, memcached_exporter"),
        ],
        settings: [
            "`-p 11211`",
            "`-l`",
            "`-Y FILE` (`-S` for SASL)",
            "`-m MEGABYTES`",
            "`-M` (answers errors instead)",
            "`-t`",
            "`-c`",
            "never persists",
            "`-Z -o ssl_chain_cert=…,ssl_key=…`",
            "in the client",
        ],
        address: same("HOST:11211"),
    },
    Facts {
        system: System::Tollgate,
        name: "Tollgate",
        targets: &["tollgate", "tollgate-grpc", "tollgate-http"],
        topics: [
            same("RESP2, RESP3; gRPC `envoy.service.ratelimit.v3`; HTTP"),
            same("EVAL, EVALSHA (Lua 5.1), `redis.call` = `server.call`"),
            text(
                "undeclared keys work; such scripts run one at a time",
                "khóa không khai báo vẫn chạy; các script như vậy chạy lần lượt",
            ),
            same("FUNCTION LOAD, FCALL"),
            text(
                "RL.* for every algorithm, CL.THROTTLE, THROTTLE, GCRA, INCREX; rules in YAML",
                "RL.* cho mọi thuật toán, CL.THROTTLE, THROTTLE, GCRA, INCREX; luật bằng YAML",
            ),
            text("all: `threads`", "tất cả: `threads`"),
            text(
                "any thread, under the lock of its shard",
                "luồng nào cũng được, dưới khóa của shard",
            ),
            text(
                "by `maxmemory-policy`; limiter state that is still valid never goes, new limiters are refused",
                "theo `maxmemory-policy`; trạng thái bộ giới hạn còn hiệu lực không bao giờ mất, bộ giới hạn mới bị từ chối",
            ),
            text(
                "INFO, redis_exporter; the service's /metrics by the names of envoyproxy/ratelimit",
                "INFO, redis_exporter; /metrics của dịch vụ theo tên của envoyproxy/ratelimit",
            ),
        ],
        settings: [
            "`port 6379`; `grpc-port 8081`, `http-port 8080`",
            "`bind`",
            "`requirepass`",
            "`maxmemory`",
            "`maxmemory-policy noeviction`",
            "`threads`",
            "`maxclients`",
            "`save \"\"`, `appendonly no` (the defaults)",
            "`tls-port`, `tls-cert-file`, `tls-key-file`",
            "`rules DIRECTORY`, or in the command",
        ],
        address: same("redis://HOST:6379 · grpc HOST:8081"),
    },
];

impl System {
    /// The facts of the system.
    pub(super) fn facts(self) -> &'static Facts {
        SYSTEMS
            .iter()
            .find(|facts| facts.system == self)
            .unwrap_or(&SYSTEMS[0])
    }

    /// Its word on a command line.
    pub(crate) fn option(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elsewhere in the bench a store is called by its program.
    #[test]
    fn stores_are_known_by_their_programs_too() {
        use clap::ValueEnum;
        for (name, system) in [
            ("redis-server", System::Redis),
            ("valkey-server", System::Valkey),
        ] {
            assert_eq!(System::from_str(name, false), Ok(system));
        }
    }

    #[test]
    fn every_system_has_its_facts_in_both_languages() {
        use clap::ValueEnum;
        for system in System::value_variants() {
            let facts = system.facts();
            assert_eq!(facts.system, *system);
            for text in facts.topics.iter().chain([&facts.address]) {
                assert!(!text.en.is_empty() && !text.vi.is_empty(), "{}", facts.name);
            }
            assert!(facts.settings.iter().all(|value| !value.is_empty()));
        }
    }
}

//! Lines of INFO that are the same on every server of this kind: they count what does not happen here, such as forks, or
//! name what does not change. Monitoring tools ask for them.

/// Lines of a section, by name and value.
pub(super) type Facts = &'static [(&'static str, &'static str)];

pub(super) const SERVER: Facts = &[
    ("redis_git_sha1", "00000000"),
    ("redis_git_dirty", "0"),
    ("redis_build_id", "0"),
    ("monotonic_clock", "POSIX clock_gettime"),
    ("atomicvar_api", "rust"),
];

pub(super) const CLIENTS: Facts = &[("cluster_connections", "0")];

/// There is one allocator, which does not tell of itself, and no copy of the data besides them.
pub(super) const MEMORY: Facts = &[
    ("used_memory_startup", "0"),
    ("mem_cluster_links", "0"),
    ("mem_allocator", "mimalloc"),
    ("active_defrag_running", "0"),
];

/// There are no modules.
pub(super) const PERSISTENCE: Facts = &[
    ("module_fork_in_progress", "0"),
    ("module_fork_last_cow_size", "0"),
];

/// No process is forked, and nothing is moved in memory.
pub(super) const STATS: Facts = &[
    ("latest_fork_usec", "0"),
    ("migrate_cached_sockets", "0"),
    ("active_defrag_hits", "0"),
    ("active_defrag_misses", "0"),
    ("active_defrag_key_hits", "0"),
    ("active_defrag_key_misses", "0"),
    ("total_active_defrag_time", "0"),
    ("current_active_defrag_time", "0"),
];

//! Lines of INFO that are the same on every server of this kind: they count what does not happen here, or name what does not
//! change. Monitoring tools ask for them.

/// Lines of a section, by name and value.
pub(super) type Facts = &'static [(&'static str, &'static str)];

/// What a build of Redis says of itself.
pub(super) const BUILD: Facts = &[
    ("redis_git_sha1", "00000000"),
    ("redis_git_dirty", "0"),
    ("redis_build_id", "0"),
];

/// Nothing is moved in memory.
pub(super) const DEFRAGMENTATION: Facts = &[
    ("active_defrag_hits", "0"),
    ("active_defrag_misses", "0"),
    ("active_defrag_key_hits", "0"),
    ("active_defrag_key_misses", "0"),
    ("total_active_defrag_time", "0"),
    ("current_active_defrag_time", "0"),
];

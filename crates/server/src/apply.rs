//! Handing settings to the parts that use them: at the start all, at CONFIG SET those that change.

use crate::config::{Key, TABLE, Values};
use crate::crash;
use crate::eviction;
use crate::link;
use crate::listening;
use crate::node::acl::read_file;
use crate::oom_score;
use crate::replication;
use crate::server::clients_granted;
use crate::shared::Shared;
use crate::title;
use crate::tls;
use tollgate_commands::StoreLimits;
use tollgate_commands::acl::{User, Users};
use tollgate_engine::LogKind;

impl Shared {
    /// Hands over the values of `keys`; an error names the setting that was refused, and the caller keeps the old values.
    pub(crate) fn apply(&self, keys: &[Key], values: &Values<'_>) -> Result<(), (Key, String)> {
        if keys.contains(&Key::MaxClients) {
            check_clients(values).map_err(|reason| (Key::MaxClients, reason))?;
        }
        let score = match first_of(keys, &oom_score::SETTINGS) {
            Some(key) => Some(
                self.adjust_oom_score(values)
                    .map_err(|reason| (key, reason))?,
            ),
            None => None,
        };
        if let Err(error) = self.apply_listening(keys, values) {
            if let Some(before) = score {
                self.oom_score.undo(before);
            }
            return Err(error);
        }
        for &key in keys {
            self.apply_one(key, values);
        }
        if first_of(keys, &title::SETTINGS).is_some() {
            let file = self.settings.file.as_ref().and_then(|path| path.to_str());
            title::follow(values, file);
        }
        if keys.iter().any(|key| eviction::SETTINGS.contains(key)) {
            let memory = u64::try_from(values.number(Key::MaxMemory)).unwrap_or(0);
            eviction::configure(&self.clients, values.get(Key::MaxmemoryClients), memory);
        }
        Ok(())
    }

    /// Follows a change of the addresses, the ports and the certificates. On an error all stays as it was.
    fn apply_listening(&self, keys: &[Key], values: &Values<'_>) -> Result<(), (Key, String)> {
        let first = |of: &[Key]| first_of(keys, of);
        let by_tls = values.number(Key::TlsPort) != 0;
        let tls = match first(tls::SETTINGS).or_else(|| first(&[Key::TlsPort])) {
            Some(key) if by_tls => {
                let acceptor = tls::acceptor(|key| values.get(key)).map_err(|error| {
                    self.log
                        .warning(format_args!("Failed to configure TLS: {error}"));
                    let reason = "Unable to update TLS configuration. Check server logs.";
                    (key, reason.to_owned())
                })?;
                tls::warn_of_expiry(&acceptor, values.get(Key::TlsCertFile), &self.log);
                Some(acceptor)
            }
            _ => None,
        };
        let change = match first(listening::SETTINGS) {
            Some(key) => {
                let change = listening::prepare(&self.listeners, values, &self.log);
                Some(change.map_err(|error| {
                    self.log.warning(format_args!("{error}"));
                    let reason = match key {
                        Key::Bind => "Failed to bind to specified addresses.",
                        _ => "Unable to listen on this port. Check server logs.",
                    };
                    (key, reason.to_owned())
                })?)
            }
            None => None,
        };
        if let Some(acceptor) = tls
            && let Err(acceptor) = self.tls.set(acceptor)
            && let Some(present) = self.tls.get()
        {
            present.replace(acceptor);
        }
        if let Some(change) = change {
            change.commit(&self.log);
        }
        Ok(())
    }

    /// Sets the score by which the system chooses what to end when memory runs out; the error says why it cannot.
    pub(crate) fn adjust_oom_score(
        &self,
        values: &Values<'_>,
    ) -> Result<oom_score::Before, String> {
        self.oom_score.follow(values).map_err(|error| {
            self.log
                .warning(format_args!("Unable to set oom_score_adj: {error}"));
            "Failed to set current oom_score_adj. Check server logs.".to_owned()
        })
    }

    /// The server has become a replica, or a master.
    pub(crate) fn follow_role(&self, is_replica: bool) {
        self.oom_score.set_replica(is_replica);
        // What cannot be set is in the log.
        let adjusted = self
            .settings
            .with_values(|values| self.adjust_oom_score(values));
        drop(adjusted);
    }

    /// What clients may do depends on the settings, too: to be called when others are in force.
    pub(crate) fn judge(&self) {
        link::judge(self);
        replication::judge(self);
    }

    fn log_from(&self, kind: LogKind, value: i64) {
        self.engine.observer().set_log_from(kind, value);
    }

    fn log_most(&self, kind: LogKind, most: i64) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.engine.observer().log(kind).set_most(most);
    }

    fn apply_one(&self, key: Key, values: &Values<'_>) {
        let name = key.setting().name;
        if StoreLimits::NAMES.contains(&name) {
            self.engine.limits().set(name, values.limit(key));
            return;
        }
        let access = self.engine.access();
        match key {
            Key::Requirepass => access.change(|users| set_password(users, values.get(key))),
            Key::AclPubsubDefault => {
                let all = values.get(key) == "allchannels";
                access.change(|users| users.set_channel_default(all));
            }
            Key::AcllogMaxLen => {
                access.set_log_len(usize::try_from(values.number(key)).unwrap_or(usize::MAX));
            }
            Key::SlowlogLogSlowerThan => self.log_from(LogKind::Slow, values.number(key)),
            Key::SlowlogMaxLen => self.log_most(LogKind::Slow, values.number(key)),
            Key::CommandlogRequestLargerThan => {
                self.log_from(LogKind::LargeRequest, values.number(key));
            }
            Key::CommandlogLargeRequestMaxLen => {
                self.log_most(LogKind::LargeRequest, values.number(key));
            }
            Key::CommandlogReplyLargerThan => {
                self.log_from(LogKind::LargeReply, values.number(key));
            }
            Key::CommandlogLargeReplyMaxLen => {
                self.log_most(LogKind::LargeReply, values.number(key));
            }
            Key::LatencyMonitorThreshold => {
                self.engine.observer().set_latency_after(values.number(key));
            }
            Key::TrackingTableMaxKeys => {
                let most = usize::try_from(values.number(key)).unwrap_or(usize::MAX);
                self.engine.tracking().set_most_keys(most);
            }
            Key::ReplBacklogSize => {
                let bytes = usize::try_from(values.number(key)).unwrap_or(usize::MAX);
                self.engine.keep_backlog(bytes);
            }
            Key::Appendfsync | Key::AofTimestampEnabled => self.aof.configure(self, values),
            Key::Loglevel => self.log.set_level(values.get(key)),
            Key::CrashLogEnabled => crash::tell_crashes(values.get(key) == "yes"),
            Key::ClusterRequireFullCoverage
            | Key::ClusterAllowReadsWhenDown
            | Key::ClusterAllowPubsubshardWhenDown => {
                let is_on = |key| values.get(key) == "yes";
                self.engine.cluster().configure(
                    is_on(Key::ClusterRequireFullCoverage),
                    is_on(Key::ClusterAllowReadsWhenDown),
                    is_on(Key::ClusterAllowPubsubshardWhenDown),
                );
            }
            Key::LimiterLeases => self.engine.set_leases(values.get(key) == "yes"),
            _ => {}
        }
    }

    /// Hands over all settings, and makes the users of the configuration: those of its file, or of the ACL file.
    pub(crate) fn apply_start(&self, users: &[Vec<Vec<u8>>]) -> Result<(), String> {
        let keys: Vec<Key> = TABLE.iter().map(|setting| setting.key).collect();
        let [path, dir] = self.settings.with_values(|values| {
            // An empty password is none, and there has been none so far.
            let skip = values.get(Key::Requirepass).is_empty();
            let keys = keys.iter().copied();
            // What is listened on is so already, with certificates.
            let keys: Vec<Key> = keys
                .filter(|key| !(skip && *key == Key::Requirepass))
                .filter(|key| !listening::SETTINGS.contains(key) && !tls::SETTINGS.contains(key))
                .collect();
            self.apply(&keys, values)
                .map_err(|(key, reason)| format!("{}: {reason}", key.setting().name))?;
            Ok::<_, String>([Key::AclFile, Key::Dir].map(|key| values.get(key).to_owned()))
        })?;
        self.judge();
        if !path.is_empty() && !users.is_empty() {
            return Err(
                "users in the configuration file and an ACL file exclude each other: define them in one of both"
                    .to_owned(),
            );
        }
        self.engine.access().change(|table| {
            for words in users {
                let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
                table.configure(&words)?;
            }
            if !path.is_empty() {
                *table = read_file(table, &dir, &path)?;
                self.log.notice(format_args!("ACL file {path} loaded"));
            }
            Ok(())
        })
    }
}

/// The first of `keys` that is one of `of`.
fn first_of(keys: &[Key], of: &[Key]) -> Option<Key> {
    keys.iter().copied().find(|key| of.contains(key))
}

/// Whether the system has descriptors for as many clients as are to be served.
fn check_clients(values: &Values<'_>) -> Result<(), String> {
    let wanted = u64::try_from(values.number(Key::MaxClients)).unwrap_or(0);
    let (_, most) = clients_granted(wanted).map_err(|error| error.to_string())?;
    match most < wanted {
        true => Err(format!(
            "The operating system is not able to handle the specified number of clients, try with {most}"
        )),
        false => Ok(()),
    }
}

fn set_password(users: &mut Users, password: &str) {
    let mut default = User::clone(users.default_user());
    default.set_only_password((!password.is_empty()).then_some(password.as_bytes()));
    users.insert(default);
}

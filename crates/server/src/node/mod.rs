//! Commands that the server answers.

pub(crate) mod acl;
pub(crate) mod auth;
mod client;
mod cluster;
mod config;
mod debug;
mod digest;
mod failover;
mod hotkeys;
mod info;
mod info_facts;
mod migrate;
pub(crate) mod modes;
mod observe;
mod pause;
mod pubsub;
pub(crate) mod replicaof;
pub(crate) mod replication;
mod save;
mod shutdown;
pub(crate) mod tracking;

use crate::client::Client;
use crate::config::Key;
use crate::shared::Shared;
use std::sync::Arc;
use tollgate_commands::{CmdError, NodeCommand, Reply};
use tollgate_engine::{Node, NodeCx, Outcome, Replies, Session, Topic};
use tollgate_keyspace::DbIndex;
use tollgate_net::PeerAddress;
use tollgate_wire::resp::Protocol;

/// Runs node commands for one client.
pub(crate) struct NodeRunner<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) client: &'a Arc<Client>,
}

impl Node for NodeRunner<'_> {
    fn count_error(&mut self, line: &[u8]) {
        self.shared.metrics.error_reply(line);
    }

    fn run(&mut self, command: NodeCommand, mut cx: NodeCx<'_>) -> Result<Reply, CmdError> {
        let protocol = cx.session.protocol;
        let result = self.answer(command, &mut cx);
        self.client.publish_session(cx.session);
        if cx.session.protocol != protocol {
            // What is there is in the words of the protocol until now.
            self.client.outbox.bring_forward();
        }
        result
    }

    fn source(&self) -> Vec<u8> {
        self.client.source()
    }
}

impl NodeRunner<'_> {
    fn answer(&self, command: NodeCommand, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
        match command {
            NodeCommand::Acl(command) => acl::run(self, command, cx),
            NodeCommand::Cluster(command) => cluster::run(self, command, cx),
            NodeCommand::Auth => auth::auth(cx),
            NodeCommand::Hello => auth::hello(cx),
            NodeCommand::Select => select(cx),
            NodeCommand::Quit => Ok(self.quit(cx)),
            NodeCommand::Reset => self.reset(cx),
            NodeCommand::ClientCapa => Ok(client::capa(cx)),
            NodeCommand::ClientId => Ok(Reply::Int(cx.session.id as i64)),
            NodeCommand::ClientGetName => client::get_name(cx),
            NodeCommand::ClientSetName => client::set_name(cx),
            NodeCommand::ClientSetInfo => client::set_info(cx),
            NodeCommand::ClientInfo => client::info(self, cx),
            NodeCommand::ClientList => client::list(self, cx),
            NodeCommand::ClientKill => client::kill(self, cx),
            NodeCommand::ClientUnblock => client::unblock(cx),
            NodeCommand::ClientNoEvict => client::no_evict(cx),
            NodeCommand::ClientCaching => tracking::caching(cx),
            NodeCommand::ClientGetRedir => Ok(tracking::get_redirect(cx)),
            NodeCommand::ClientPause => pause::pause(self, cx),
            NodeCommand::ClientUnpause => Ok(pause::unpause(cx)),
            NodeCommand::ClientNoTouch => client::no_touch(cx),
            NodeCommand::ClientReply => modes::reply(cx),
            NodeCommand::ClientTracking => tracking::tracking(self, cx),
            NodeCommand::ClientTrackingInfo => Ok(tracking::tracking_info(self, cx)),
            NodeCommand::Monitor => modes::monitor(self, cx),
            NodeCommand::ConfigGet => config::get(self.shared, cx),
            NodeCommand::ConfigSet => config::set(self, cx),
            NodeCommand::ConfigRewrite => config::rewrite(self.shared),
            NodeCommand::ConfigResetStat => config::reset_stat(self.shared, cx),
            NodeCommand::Debug => debug::debug(self, cx),
            NodeCommand::HotKeys(command) => hotkeys::run(command, cx),
            NodeCommand::LatencyDoctor => observe::latency_doctor(self.shared, cx),
            NodeCommand::LatencyGraph => observe::latency_graph(cx),
            NodeCommand::LatencyHistogram => observe::latency_histogram(cx),
            NodeCommand::LatencyHistory => observe::latency_history(cx),
            NodeCommand::LatencyLatest => observe::latency_latest(cx),
            NodeCommand::LatencyReset => observe::latency_reset(cx),
            NodeCommand::ModuleLoad | NodeCommand::ModuleUnload => self.refuse_module(command),
            NodeCommand::MemoryDoctor => observe::memory_doctor(self.shared, cx),
            NodeCommand::MemoryMallocStats => observe::malloc_stats(self.shared, cx),
            NodeCommand::MemoryPurge => Ok(observe::memory_purge(self.shared)),
            NodeCommand::MemoryStats => observe::memory_stats(self.shared, cx),
            NodeCommand::SlowlogGet => observe::slowlog_get(cx),
            NodeCommand::CommandlogGet => observe::commandlog_get(cx),
            NodeCommand::LogLen => observe::log_len(cx),
            NodeCommand::LogReset => observe::log_reset(cx),
            NodeCommand::Info => info::info(self.shared, cx),
            NodeCommand::Save => save::save(self.shared, cx),
            NodeCommand::BgRewriteAof => save::rewrite_log(self.shared, cx),
            NodeCommand::BgSave => save::background(self.shared, cx),
            NodeCommand::LastSave => Ok(save::last(self.shared)),
            NodeCommand::Migrate => migrate::migrate(self.shared, cx),
            NodeCommand::PSync => replication::psync(self, cx),
            NodeCommand::ReplConf => replication::replconf(self, cx),
            NodeCommand::Failover => failover::failover(self, cx),
            NodeCommand::ReplicaOf => replicaof::replicaof(self, cx),
            NodeCommand::Role => Ok(replication::role(self.shared, cx)),
            NodeCommand::Sync => replication::sync(self, cx),
            NodeCommand::Shutdown => shutdown::shutdown(self, cx),
            NodeCommand::Subscribe => pubsub::subscribe(self, cx, Topic::Channel),
            NodeCommand::Unsubscribe => pubsub::unsubscribe(self, cx, Topic::Channel),
            NodeCommand::PSubscribe => pubsub::subscribe(self, cx, Topic::Pattern),
            NodeCommand::PUnsubscribe => pubsub::unsubscribe(self, cx, Topic::Pattern),
            NodeCommand::SSubscribe => pubsub::subscribe(self, cx, Topic::ShardChannel),
            NodeCommand::SUnsubscribe => pubsub::unsubscribe(self, cx, Topic::ShardChannel),
        }
    }

    /// The client as CLIENT LIST has it now, for the log.
    fn shown(&self, cx: &NodeCx<'_>) -> String {
        self.client.publish(cx.session, cx.now.nanos());
        self.client.show(cx.now)
    }

    fn quit(&self, cx: &mut NodeCx<'_>) -> Reply {
        self.client.leave();
        *cx.outcome = Outcome::Close;
        Reply::Ok
    }

    /// RESET: a connection as it was when it was new.
    fn reset(&self, cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
        if cx.session.follows {
            return Err(CmdError::err("can only reset normal client connections"));
        }
        cx.engine.leave(cx.session);
        reset(self.shared, cx.session);
        let (pubsub, client) = (cx.engine.pubsub(), self.client);
        client.subscriptions.clear(pubsub, client.id);
        cx.session.subscriptions = 0;
        tracking::stop(cx.engine, client, cx.session);
        modes::stop_monitor(cx.engine, client, cx.session);
        client.outbox.bring_forward();
        cx.out.set_protocol(cx.session.protocol);
        Ok(Reply::Simple("RESET"))
    }

    /// Modules cannot be loaded, also where the setting would allow it.
    fn refuse_module(&self, command: NodeCommand) -> Result<Reply, CmdError> {
        Err(match command {
            _ if !self.is_allowed(Key::EnableModuleCommand) => CmdError::ModuleNotAllowed,
            NodeCommand::ModuleUnload => CmdError::NoSuchModule,
            _ => CmdError::ModuleNotLoaded,
        })
    }

    /// What the setting says of something dangerous: `yes`, `no`, or `local` for clients of this machine.
    fn is_allowed(&self, key: Key) -> bool {
        match &*self.shared.settings.get(key) {
            "yes" => true,
            "local" => match &self.client.peer.remote {
                PeerAddress::Tcp(address) => address.ip().is_loopback(),
                PeerAddress::Unix(_) => true,
            },
            _ => false,
        }
    }
}

fn select(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    let db = cx.args.database(cx.engine.limits())?;
    if db != DbIndex::ZERO && cx.engine.cluster().is_on() {
        return Err(CmdError::NoSelectInCluster);
    }
    cx.session.db = db;
    Ok(Reply::Ok)
}

/// Back to the state of a new connection; what the library said of itself stays.
fn reset(shared: &Shared, session: &mut Session) {
    session.db = DbIndex::ZERO;
    session.protocol = Protocol::Resp2;
    shared.engine.access().begin(session);
    session.name = Box::default();
    session.no_evict = false;
    session.no_touch = false;
    session.reads_replicas = false;
    session.replies = Replies::On;
}

//! Commands that the server answers.

mod auth;
mod client;
mod config;
mod info;
mod pubsub;
mod shutdown;

use crate::client::Client;
use crate::shared::Shared;
use std::sync::Arc;
use tollgate_commands::{CmdError, NodeCommand, Reply};
use tollgate_engine::{Node, NodeCx, Outcome, Session, Topic};
use tollgate_keyspace::DbIndex;
use tollgate_wire::resp::Protocol;

/// Runs node commands for one client.
pub(crate) struct NodeRunner<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) client: &'a Arc<Client>,
}

impl Node for NodeRunner<'_> {
    fn run(&mut self, command: NodeCommand, mut cx: NodeCx<'_>) -> Result<Reply, CmdError> {
        let result = match command {
            NodeCommand::Auth => auth::auth(self.shared, &mut cx),
            NodeCommand::Hello => auth::hello(self.shared, &mut cx),
            NodeCommand::Select => select(&mut cx),
            NodeCommand::Quit => {
                *cx.outcome = Outcome::Close;
                Ok(Reply::Ok)
            }
            NodeCommand::Reset => {
                cx.engine.leave(cx.session);
                reset(self.shared, cx.session);
                self.client
                    .subscriptions
                    .clear(cx.engine.pubsub(), self.client.id);
                cx.session.subscriptions = 0;
                cx.out.set_protocol(cx.session.protocol);
                Ok(Reply::Simple("RESET"))
            }
            NodeCommand::ClientId => Ok(Reply::Int(cx.session.id as i64)),
            NodeCommand::ClientGetName => client::get_name(&mut cx),
            NodeCommand::ClientSetName => client::set_name(&mut cx),
            NodeCommand::ClientSetInfo => client::set_info(&mut cx),
            NodeCommand::ClientInfo => client::info(self, &mut cx),
            NodeCommand::ClientList => client::list(self, &mut cx),
            NodeCommand::ClientKill => client::kill(self, &mut cx),
            NodeCommand::ClientUnblock => client::unblock(&mut cx),
            NodeCommand::ClientNoEvict => client::no_evict(&mut cx),
            NodeCommand::ConfigGet => config::get(self.shared, &mut cx),
            NodeCommand::ConfigSet => config::set(self.shared, &mut cx),
            NodeCommand::ConfigResetStat => config::reset_stat(self.shared, &mut cx),
            NodeCommand::Info => info::info(self.shared, &mut cx),
            NodeCommand::Shutdown => shutdown::shutdown(self.shared, &mut cx),
            NodeCommand::Subscribe => pubsub::subscribe(self, &mut cx, Topic::Channel),
            NodeCommand::Unsubscribe => pubsub::unsubscribe(self, &mut cx, Topic::Channel),
            NodeCommand::PSubscribe => pubsub::subscribe(self, &mut cx, Topic::Pattern),
            NodeCommand::PUnsubscribe => pubsub::unsubscribe(self, &mut cx, Topic::Pattern),
            NodeCommand::SSubscribe => pubsub::subscribe(self, &mut cx, Topic::ShardChannel),
            NodeCommand::SUnsubscribe => pubsub::unsubscribe(self, &mut cx, Topic::ShardChannel),
        };
        self.client.publish_session(cx.session);
        result
    }
}

fn select(cx: &mut NodeCx<'_>) -> Result<Reply, CmdError> {
    cx.session.db = cx.args.database()?;
    Ok(Reply::Ok)
}

/// Back to the state of a new connection; what the library said of itself stays.
fn reset(shared: &Shared, session: &mut Session) {
    session.db = DbIndex::ZERO;
    session.protocol = Protocol::Resp2;
    session.authenticated = !shared.settings.has_password();
    session.name = Box::default();
    session.no_evict = false;
}

//! Event loops for the connections whose decisions are made in this process.

mod driver;
mod dues;
mod held;
mod wakes;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tollgate_net::{Backend, GroupOptions, Listener, LoopGroup, LoopGroupBuilder, Mailboxes};

use driver::{Common, Ports, ServiceLoop};
pub(crate) use driver::{MakeService, Means, Served, after};
pub(crate) use held::Signal;
pub(crate) use wakes::Wakes;

/// Between two looks whether all connections have ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Running loops.
pub(crate) struct Loops {
    group: LoopGroup<Signal>,
    mailboxes: Arc<Mailboxes<Signal>>,
    places: Arc<AtomicUsize>,
    stops: Arc<AtomicBool>,
}

impl fmt::Debug for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loops").finish_non_exhaustive()
    }
}

/// How loops are set up.
#[derive(Clone)]
pub(crate) struct LoopOptions {
    pub(crate) io: Backend,
    /// Connections of the whole service.
    pub(crate) places: Arc<AtomicUsize>,
    pub(crate) shed_after: Duration,
    pub(crate) monotonic: fn() -> Instant,
}

/// The ports that loops serve.
#[derive(Debug, Default)]
pub(crate) struct LoopPorts {
    pub(crate) grpc: Option<Listener>,
    pub(crate) http: Option<Listener>,
}

impl Loops {
    /// Serves what the ports accept, on a thread for each of `makes`.
    pub(crate) fn start(
        ports: LoopPorts,
        makes: Vec<MakeService>,
        options: LoopOptions,
    ) -> io::Result<Loops> {
        let builder = LoopGroupBuilder::that_hears_many(makes.len(), options.io)?;
        let mailboxes = builder.mailboxes().clone();
        let stops = Arc::new(AtomicBool::new(false));
        let address = |listener: &Option<Listener>| {
            let address = listener.as_ref().map(Listener::address);
            address.cloned()
        };
        let common = Common {
            ports: Ports {
                grpc: address(&ports.grpc),
                http: address(&ports.http),
            },
            places: options.places.clone(),
            stops: stops.clone(),
            shed_after: options.shed_after,
            system: builder.backend(),
            monotonic: options.monotonic,
            mailboxes: mailboxes.clone(),
        };
        let drivers = makes.into_iter();
        let drivers = drivers.map(|make| ServiceLoop::new(make, common.clone()));
        let listeners = ports.grpc.into_iter().chain(ports.http);
        let names = GroupOptions {
            name: "rls-loop",
            cpus: Vec::new(),
            together: 0,
        };
        let group = builder.start(drivers.collect(), listeners.collect(), &names)?;
        Ok(Loops {
            group,
            mailboxes,
            places: options.places,
            stops,
        })
    }

    /// Ends the connections that are idle, and the others with the request under way.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
        // A loop whose mailbox is full looks when it has emptied it.
        self.mailboxes.tick_all().ok();
    }

    /// Waits until the loops have ended after [`stop`](Self::stop), for connections at most until `grace` is over.
    pub(crate) fn end(self, grace: Duration) -> io::Result<()> {
        let until = Instant::now() + grace;
        while self.places.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        self.group.stop(0);
        self.group.join()
    }
}

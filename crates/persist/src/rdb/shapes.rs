//! What decides on the forms of collections that are read.

use tollgate_containers::hash::HashLimits;
use tollgate_containers::list::NodeLimit;
use tollgate_containers::set::SetLimits;
use tollgate_containers::sorted_set::Limits;

/// Limits of compact forms, and the secret of the indexes of others. A file tells which form its writer had; what is read
/// takes the form that these limits ask for.
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    /// Of hashes.
    pub hash: HashLimits,
    /// Of sets.
    pub set: SetLimits,
    /// Of sorted sets.
    pub sorted_set: Limits,
    /// Of lists.
    pub list: NodeLimit,
}

impl Default for Shapes {
    /// The limits of redis-server, and a secret that is none.
    fn default() -> Shapes {
        Shapes {
            hash: HashLimits {
                max_entries: 512,
                max_value: 64,
                seed: 0,
            },
            set: SetLimits {
                max_ints: 512,
                seed: 0,
            },
            sorted_set: Limits {
                entries: 128,
                value: 64,
                secret: 0,
            },
            list: NodeLimit::default(),
        }
    }
}

//! What files say of the history of their data, in auxiliary fields: whoever loads one can go on from there with replicas, or
//! with a master, that know the history too.

use tollgate_keyspace::DbIndex;

/// Name of the auxiliary field that holds [`History::stream_db`], in decimal digits.
pub(super) const STREAM_DB_FIELD: &str = "repl-stream-db";

/// Name of the auxiliary field that holds [`History::id`].
pub(super) const REPL_ID_FIELD: &str = "repl-id";

/// Name of the auxiliary field that holds [`History::offset`], in decimal digits.
pub(super) const REPL_OFFSET_FIELD: &str = "repl-offset";

/// Name of the auxiliary field that holds [`History::limiters_from`], in decimal digits; Redis passes over it.
pub(super) const LIMITERS_FROM_FIELD: &str = "tollgate-limiters-from";

/// The place of data in a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Its name, [`History::ID_LEN`] characters.
    pub id: String,
    /// Bytes of it that the data comprise.
    pub offset: u64,
    /// The database that is selected behind them.
    pub stream_db: DbIndex,
    /// From which byte on (counted from 1) it has the state of rate limiters, if it has.
    pub limiters_from: Option<u64>,
}

impl History {
    /// Bytes of a name.
    pub const ID_LEN: usize = 40;

    /// The fields that say so, each with its name, in the order in which Redis writes them.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            (STREAM_DB_FIELD, self.stream_db.get().to_string()),
            (REPL_ID_FIELD, self.id.clone()),
            (REPL_OFFSET_FIELD, self.offset.to_string()),
        ];
        if let Some(from) = self.limiters_from {
            fields.push((LIMITERS_FROM_FIELD, from.to_string()));
        }
        fields
    }
}

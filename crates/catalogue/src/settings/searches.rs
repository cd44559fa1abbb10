//! Settings that `kqps find` records of its flags. No study has them, and nothing but people reads their words.

use crate::name;
use crate::setting::{GivenBy, Kind, Over, Setting, read_again};

/// A row of a search.
const fn row(name: &'static str, meaning: &'static str) -> Setting {
    Setting {
        name,
        meaning,
        kind: Kind::Text,
        over: Over::Every,
        given_by: GivenBy::Search,
        flag: None,
        read: read_again::<String>,
    }
}

/// The rows of this group.
pub(crate) const ROWS: &[Setting] = &[
    row(name::PLAYER_BUFFER, "bytes of each socket's receive and send buffers, `--buffer`"),
    row(name::PLAYER_LOCAL_PORT, "the source port of the first socket, `--local-port`"),
    row(name::PLAYER_DEVICE, "the device that frames pass, `--device`"),
    row(name::PLAYER_PRIORITY, "the scheduling priority of the sending threads, `--priority`"),
    row(name::PLAYER_DRAIN, "seconds for which the player listens after its last query, `--drain`"),
    row(name::PLAYER_LAG, "seconds after which the player gives up a query that is due, `--lag`"),
    row(name::PLAYER_COALESCE, "seconds that a due query may wait for others, `--coalesce`"),
    row(name::DATASET_FORMAT, "the format of the query file"),
    row(name::DATASET_SKIP_BAD, "whether lines that are no query are skipped"),
    row(name::DATASET_EDNS, "the additions to every query"),
    row(name::DATASET_CLIENT, "the traits that identify a client of a capture"),
    row(name::DATASET_CAPTURED_PORTS, "the servers' ports in a capture"),
    row(name::DATASET_CAPTURED_SERVERS, "the servers in a capture"),
    row(name::DATASET_WINDOW, "the part of a capture"),
    row(name::DATASET_PILE, "slices of a capture that are played at once"),
];

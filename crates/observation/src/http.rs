//! HTTP on the connections of a trial: how queries were asked, how many waited for a stream, and what the subject
//! ended.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// HTTP/2 on the connections of all players over one trial. Replies that are wrong by HTTP are in the causes of the
/// trial: `status-503` or another status, `content-type`, `id` and `too-long`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpFacts {
    /// How queries were asked: `post` or `get`.
    pub method: String,
    /// The paths of the targets' URLs, each once.
    pub paths: Vec<String>,
    /// Queries that waited because their connection had as many streams open as the subject takes
    /// (`MAX_CONCURRENT_STREAMS`). Their waits are in their latencies.
    pub blocked: u64,
    /// For how long they waited, all together, seconds.
    pub blocked_s: f64,
    /// Reason → connections at which the subject went away (GOAWAY), such as `NO_ERROR`.
    pub goaways: BTreeMap<String, u64>,
    /// Reason → streams that the subject ended (`RST_STREAM`), such as `REFUSED_STREAM`.
    pub resets: BTreeMap<String, u64>,
    /// Failure → how often, in words: what the subject did that HTTP/2 forbids.
    pub failures: BTreeMap<String, u64>,
}

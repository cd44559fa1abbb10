//! Links to agents in other processes: this test's program started again, and shells that misbehave.

mod agent;
mod jobs;
mod trouble;

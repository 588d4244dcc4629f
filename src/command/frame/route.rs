//! What upstream mode does with a command: the column `route` of the table of commands.

use super::Command;

/// Where a command goes if a cluster holds the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Answered here.
    Here,
    /// About users and logins: answered here, or by the cluster if the clients log in to it.
    Login,
    /// Passed on as it is.
    Forward,
    /// The status of the server: the cluster's, with a section about the connection to it.
    Status,
    /// Reads or writes documents: passed on, and changed where a rule holds.
    Documents,
    /// Sizes and counts, which leave out what has ended.
    Statistics,
    /// Sets parameters: passed on, and done here where Sundown has the same parameter.
    Parameter,
    /// Creates, changes, lists or drops collections, indexes and databases.
    Schema,
    /// Passed on only where no collection of the database has a TTL, because nothing is known of what it reads or writes.
    WithoutTtl,
    /// Refused by name.
    Refused,
}

// === impl Command ===

impl Command {
    #[must_use]
    pub const fn route(mut self, route: Route) -> Self {
        self.facts.route = route;
        self
    }
}

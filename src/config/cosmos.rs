//! The settings for Azure Cosmos DB: its emulator's port, replica set and account, request units, strict mode.

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

use crate::cosmos::Allowance;

/// Which features of Cosmos DB the server has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CosmosConfig {
    /// Settings that are not given have the emulator's values.
    pub profile: bool,
    /// Refuse what the service refuses.
    pub strict: bool,
    /// The request units per second of collections and databases without a throughput of their own. Empty means no limit.
    pub request_units: Vec<Allowance>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Service {
    Cosmos,
}

#[derive(Debug, Clone, Args)]
#[group(id = "cosmos-arguments")]
pub(super) struct CosmosArguments {
    /// Behave like the Cosmos DB emulator: port 10255, replica set globaldb, TLS optional, the emulator's account and key; other options override each of these
    #[arg(long, env = "SUNDOWN_COSMOS", value_parser = BoolishValueParser::new())]
    pub(super) cosmos: bool,

    /// Refuse what this service refuses, with its codes and messages: cosmos
    #[arg(long, env = "SUNDOWN_STRICT", value_name = "SERVICE", value_enum)]
    strict: Option<Service>,

    /// Request units per second, separated by commas: 400 for each collection, shop=1000 for a database, shop.carts=400 for one collection; customAction can set another throughput. Requests over the budget fail with error 16500 [default: no limit]
    #[arg(
        long,
        env = "SUNDOWN_REQUEST_UNITS",
        value_name = "UNITS",
        value_delimiter = ','
    )]
    request_units: Vec<Allowance>,
}

// === impl CosmosConfig ===

impl CosmosConfig {
    pub const PORT: u16 = 10255;
    pub const REPLICA_SET: &str = "globaldb";
}

impl From<CosmosArguments> for CosmosConfig {
    fn from(arguments: CosmosArguments) -> Self {
        Self {
            profile: arguments.cosmos,
            strict: arguments.strict.is_some(),
            request_units: arguments.request_units,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_refused, config};
    use super::super::{TlsMode, Topology};

    #[test]
    fn the_profile_sets_what_is_not_said_otherwise() {
        let plain = config(&["--cosmos"]).unwrap();
        assert_eq!(plain.port, 10255);
        assert_eq!(plain.tls.mode, TlsMode::Optional);
        let set = Topology::ReplicaSet {
            name: "globaldb".into(),
            advertise: None,
        };
        assert_eq!(plain.topology, set);
        assert_eq!(plain.accounts.list.len(), 1);
        assert_eq!(plain.accounts.list[0].name.to_string(), "localhost@admin");
        let other = config(&[
            "--cosmos",
            "--port",
            "27017",
            "--tls",
            "disabled",
            "--standalone",
            "--user",
            "shop:secret",
        ])
        .unwrap();
        assert_eq!(other.port, 27017);
        assert_eq!(other.tls.mode, TlsMode::Disabled);
        assert_eq!(other.topology, Topology::Standalone);
        assert_eq!(other.accounts.list.len(), 1);
        assert_eq!(other.accounts.list[0].name.to_string(), "shop@admin");
        let named = config(&["--cosmos", "--advertise", "sundown:10255"]).unwrap();
        let set = Topology::ReplicaSet {
            name: "globaldb".into(),
            advertise: Some("sundown:10255".into()),
        };
        assert_eq!(named.topology, set);
    }

    #[test]
    fn limits_and_strictness_go_without_the_profile() {
        let units = "400,shop=1000";
        let limited = config(&["--request-units", units, "--strict", "cosmos"]).unwrap();
        assert!(limited.cosmos.strict && !limited.cosmos.profile);
        let allowances = limited.cosmos.request_units.iter();
        let allowances: Vec<String> = allowances.map(ToString::to_string).collect();
        assert_eq!(allowances.join(","), units);
        assert_eq!(limited.port, 27017);
        assert_refused(&[
            (&["--request-units", "0"], "--request-units"),
            (&["--request-units", "shop="], "--request-units"),
            (&["--strict", "azure"], "cosmos"),
        ]);
    }
}

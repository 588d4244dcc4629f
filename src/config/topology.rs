//! The topology that the server announces.

use clap::Args;
use clap::builder::BoolishValueParser;

/// The kind of deployment that drivers see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Topology {
    /// A router: drivers use sessions and retryable writes, and never connect to an advertised name.
    #[default]
    Router,
    /// The only member of a replica set.
    ReplicaSet {
        name: String,
        /// The `HOST:PORT` that drivers connect to; by default localhost and the port.
        advertise: Option<String>,
    },
    Standalone,
}

#[derive(Debug, Clone, Args)]
pub(super) struct TopologyArguments {
    /// Announce a replica set of this name, with this server as its only member, instead of a router
    #[arg(long, env = "SUNDOWN_REPLICA_SET", value_name = "NAME")]
    replica_set: Option<String>,

    /// The address at which drivers reach the member of the replica set [default: localhost and the port]
    #[arg(long, env = "SUNDOWN_ADVERTISE", value_name = "HOST:PORT")]
    advertise: Option<String>,

    /// Announce a standalone server instead of a router
    #[arg(long, env = "SUNDOWN_STANDALONE", value_parser = BoolishValueParser::new())]
    standalone: bool,
}

// === impl TopologyArguments ===

impl TopologyArguments {
    /// Converts the arguments. `unless_said` is the replica set if nothing was chosen. The error is a message for the user.
    pub(super) fn resolve(self, unless_said: Option<&str>) -> Result<Topology, String> {
        let arguments = self;
        // Compose files pass unset variables as empty ones.
        let given = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        let advertise = given(&arguments.advertise);
        if let Some(address) = &advertise {
            check_advertised(address)?;
        }
        let set = given(&arguments.replica_set);
        let set = match (set, arguments.standalone) {
            (None, false) => unless_said.map(ToOwned::to_owned),
            (set, _) => set,
        };
        match (set, arguments.standalone) {
            (Some(_), true) => Err(
                "--replica-set and --standalone contradict each other: a server announces itself as one or the other"
                    .into(),
            ),
            (Some(name), false) => Ok(Topology::ReplicaSet { name, advertise }),
            (None, _) if advertise.is_some() => Err(
                "--advertise names the member of a replica set: it needs --replica-set NAME".into(),
            ),
            (None, true) => Ok(Topology::Standalone),
            (None, false) => Ok(Topology::Router),
        }
    }
}

fn check_advertised(address: &str) -> Result<(), String> {
    match address.rsplit_once(':') {
        Some((host, port))
            if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) =>
        {
            Ok(())
        }
        _ => Err(format!(
            "--advertise takes HOST:PORT, and {address:?} is not of that form"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_refused, config};
    use super::*;

    #[test]
    fn arguments_that_make_sense_together() {
        let set = |name: &str, advertise: Option<&str>| Topology::ReplicaSet {
            name: name.into(),
            advertise: advertise.map(Into::into),
        };
        let table: &[(&[&str], Topology)] = &[
            (&["--standalone"], Topology::Standalone),
            (&["--replica-set", "globaldb"], set("globaldb", None)),
            (
                &["--replica-set", "rs0", "--advertise", "db:27017"],
                set("rs0", Some("db:27017")),
            ),
            (
                &["--replica-set", "rs0", "--advertise", "[::1]:1"],
                set("rs0", Some("[::1]:1")),
            ),
            (&["--replica-set", ""], Topology::Router),
        ];
        for (arguments, expected) in table {
            let topology = config(arguments).map(|config| config.topology);
            assert_eq!(topology.as_ref(), Ok(expected), "{arguments:?}");
        }
    }

    #[test]
    fn arguments_that_contradict_each_other() {
        assert_refused(&[
            (&["--replica-set", "a", "--standalone"], "--standalone"),
            (&["--advertise", "db:1"], "--replica-set"),
            (&["--replica-set", "a", "--advertise", "db"], "HOST:PORT"),
            (&["--replica-set", "a", "--advertise", "db:0"], "HOST:PORT"),
        ]);
    }
}

//! The real mongod that tests compare with.

use std::net::{SocketAddr, ToSocketAddrs};

use bson::doc;

use super::client::Client;

/// Returns the address of the server in a URI.
pub fn address(uri: &str) -> SocketAddr {
    let host = uri.trim_start_matches("mongodb://");
    let host = host.split(['/', '?']).next().unwrap_or(host);
    let host = host.rsplit('@').next().unwrap_or(host);
    let addresses = host.to_socket_addrs().ok();
    addresses
        .and_then(|mut all| all.next())
        .unwrap_or_else(|| panic!("{uri} names no host and port"))
}

/// Connects to a server and makes it use its classic engine. The other engine of 6.0 runs parts of some pipelines and has
/// different codes for the same errors.
pub fn connect(uri: &str) -> Client {
    let address = address(uri);
    let mut client = Client::connect(address)
        .unwrap_or_else(|problem| panic!("nothing answers at {address}: {problem}"));
    let classic = doc! {"setParameter": 1, "internalQueryForceClassicEngine": true};
    let set = client.command("admin", classic).expect("a reply");
    assert_eq!(set.get_f64("ok").ok(), Some(1.0), "{set}");
    client
}

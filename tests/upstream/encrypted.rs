//! TLS to the cluster, and logging in by a certificate.

use mongodb::Client as Driver;
use sundown::Sundown;
use sundown::clock::Clock;

use crate::cluster::{Cluster, Kind, in_front_of};
use crate::sockets::round_trip;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_is_reached_through_tls() {
    let Some(cluster) = Cluster::start(Kind::Encrypted, "the_cluster_is_reached_through_tls").await
    else {
        return;
    };
    let uri = |options: &str| format!("mongodb://{}/?{options}", cluster.address());
    let folder = cluster.folder();
    let (authority, client) = (folder.join("authority.pem"), folder.join("client.pem"));
    let (authority, client) = (authority.display(), client.display());
    let trusted = format!("tls=true&tlsCAFile={authority}&tlsCertificateKeyFile={client}");
    let refusal = async |uri: String| {
        let mut config = in_front_of(&uri);
        let upstream = config.upstream.as_mut().unwrap();
        upstream.required = true;
        upstream.start_timeout = std::time::Duration::from_secs(2);
        let started = Sundown::start(config, Clock::system()).await;
        started.map(drop).unwrap_err().to_string()
    };
    // By a password, by nothing but the certificate, and without looking at the cluster's certificate.
    let password = uri(&trusted).replace("mongodb://", "mongodb://root:secret@");
    for uri in [
        password.clone(),
        uri(&format!(
            "{trusted}&authMechanism=MONGODB-X509&authSource=$external"
        )),
        password.replace(
            &format!("tlsCAFile={authority}"),
            "tlsAllowInvalidCertificates=true",
        ),
    ] {
        let server = Sundown::start(in_front_of(&uri), Clock::system()).await;
        round_trip(&server.unwrap_or_else(|problem| panic!("{uri}: {problem}"))).await;
    }
    for uri in [
        // No TLS, an authority that has not signed the certificate, a file that is missing, a wrong password.
        format!("mongodb://root:secret@{}/", cluster.address()),
        password.replace("authority.pem", "other.pem"),
        password.replace("authority.pem", "missing.pem"),
        password.replace("secret", "wrong"),
    ] {
        let said = refusal(uri.clone()).await;
        assert!(
            said.contains("--upstream") && !said.contains('\n'),
            "{uri}: {said}"
        );
        assert!(!said.contains("secret"), "{said}");
    }
    // The other side is the clients' own business.
    let direct = Driver::with_uri_str(&password).await.unwrap();
    let names = direct.list_database_names().await.unwrap();
    assert!(names.contains(&"sundown".to_owned()), "{names:?}");
}

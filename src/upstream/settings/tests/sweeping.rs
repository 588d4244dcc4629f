//! Physical deletion.

use super::*;
use crate::upstream::settings::ddl;

#[tokio::test]
async fn documents_are_stamped_and_swept_in_slices() {
    let cluster = TestCluster::start().await;
    let settings = cluster.settings(LONG);
    let db = &cluster.database;
    let old: Vec<_> = (0..1_500).map(|n| doc! {"_id": n}).collect();
    cluster.run(doc! {"insert": "c", "documents": old}).await;
    let create = doc! {"collMod": "c", "defaultTtl": -1, "$db": db};
    let request = Request::new(create.to_vec().unwrap());
    ddl::coll_mod(&settings, &mut &cluster, &request)
        .await
        .unwrap();
    settings.0.sweep().await;
    assert_eq!(settings.status().stamped, 1_500);
    settings.0.sweep().await;
    assert_eq!(settings.status().stamped, 1_500, "once is enough");
    let now = bson::DateTime::from_millis(cluster.clock.now().0);
    let values: [bson::Bson; 6] = [
        5.into(),
        5.0.into(),
        7_i64.into(),
        5.5.into(),
        vec![5].into(),
        "5".into(),
    ];
    for (nth, ttl) in values.into_iter().enumerate() {
        let documents: Vec<_> = (0..600)
            .map(|n| doc! {"_id": format!("{nth} {n}"), "ttl": ttl.clone(), "_sundown": now})
            .collect();
        cluster
            .run(doc! {"insert": "c", "documents": documents})
            .await;
    }
    cluster.clock.advance(4_999);
    settings.0.sweep().await;
    assert_eq!(settings.status().swept, 0);
    cluster.clock.advance(1);
    settings.0.sweep().await;
    assert_eq!(settings.status().swept, 1_200);
    cluster.clock.advance(2_000);
    settings.0.sweep().await;
    assert_eq!(settings.status().swept, 1_800);
    let left = cluster.run(doc! {"count": "c", "query": {}}).await;
    assert_eq!(left.get_i32("n").unwrap(), 1_500 + 3 * 600);
}

#[tokio::test]
async fn the_cluster_deletes_what_inherits_and_never_early() {
    let cluster = TestCluster::start().await;
    let settings = cluster.settings(LONG);
    let expiry = async |default: bson::Bson| {
        let change = doc! {"collMod": "c", "defaultTtl": default, "$db": &cluster.database};
        let request = Request::new(change.to_vec().unwrap());
        let reply = ddl::coll_mod(&settings, &mut &cluster, &request).await;
        reply.unwrap();
        let listed = cluster.run(doc! {"listIndexes": "c"}).await;
        let rows = listed.get_document("cursor").unwrap();
        let rows = rows.get_array("firstBatch").unwrap().iter();
        let ours = rows.map(|row| row.as_document().unwrap().clone());
        let ours = ours.filter(|row| row.get_str("name").unwrap().starts_with("_sundown"));
        let shown = ours.map(|row| {
            let number = row.get("expireAfterSeconds");
            number.and_then(crate::upstream::settings::record::number)
        });
        shown.collect::<Vec<_>>()
    };
    cluster.run(doc! {"create": "c"}).await;
    assert_eq!(expiry(10.into()).await, [None, Some(70)]);
    assert_eq!(expiry(20.into()).await, [None, Some(80)]);
    assert_eq!(expiry(5.into()).await, [None, Some(65)]);
    assert_eq!(expiry((-1).into()).await, [None]);
    assert_eq!(expiry(i32::MAX.into()).await, [None, Some(i32::MAX.into())]);
    assert_eq!(expiry(bson::Bson::Null).await, []);
}

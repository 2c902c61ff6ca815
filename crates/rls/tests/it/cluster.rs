//! A Redis Cluster whose slots move.

use tollgate_testkit::cluster::RedisCluster;
use tollgate_testkit::{Client, peers};
use tollgate_wire::resp::Value;

use crate::support::{Service, descriptor, request, told};

#[tokio::test]
async fn a_counter_is_followed_to_where_its_slot_moves() {
    let test = "a_counter_is_followed_to_where_its_slot_moves";
    let Some(cluster) = RedisCluster::start().expect("the nodes agree") else {
        peers::skip(test, "redis-server");
        return;
    };
    let service = Service::remote(&cluster.url("redis+cluster"));
    let mut client = service.client().await;
    let ask = || request(vec![descriptor(&["hundred=moves"])]);
    for left in [99, 98] {
        let response = client.ask(ask()).await.expect("an answer");
        assert_eq!(response.statuses[0].limit_remaining, left);
    }
    let key = "rl:w{:4:test:7:hundred:5:moves}";
    let mut nodes: Vec<Client> = cluster
        .nodes()
        .iter()
        .map(|node| node.connect().expect("the node answers"))
        .collect();
    let slot = told(&mut nodes[0], &["CLUSTER", "KEYSLOT", key]);
    let slot = slot.as_int().expect("a number").to_string();
    let holds = |node: &mut Client| {
        let count = told(node, &["CLUSTER", "COUNTKEYSINSLOT", &slot]);
        count.as_int() == Some(1)
    };
    let from = nodes.iter_mut().position(holds).expect("some node counts");
    let to = (from + 1) % nodes.len();
    let ids: Vec<String> = nodes
        .iter_mut()
        .map(|node| match told(node, &["CLUSTER", "MYID"]) {
            Value::Bulk(id) => String::from_utf8(id).expect("text"),
            other => panic!("{other:?}"),
        })
        .collect();
    let set = |node: &mut Client, state: &str, id: &str| {
        told(node, &["CLUSTER", "SETSLOT", &slot, state, id]);
    };
    set(&mut nodes[to], "IMPORTING", &ids[from]);
    set(&mut nodes[from], "MIGRATING", &ids[to]);
    let port = cluster.nodes()[to].addr().port().to_string();
    told(
        &mut nodes[from],
        &["MIGRATE", "127.0.0.1", &port, key, "0", "60000"],
    );
    // Between here and there, the old node sends whoever asks on.
    let response = client.ask(ask()).await.expect("an answer");
    assert_eq!(response.statuses[0].limit_remaining, 97);
    for node in [to, from] {
        set(&mut nodes[node], "NODE", &ids[to]);
    }
    let response = client.ask(ask()).await.expect("an answer");
    assert_eq!(response.statuses[0].limit_remaining, 96, "counted on");
}

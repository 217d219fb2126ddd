//! Where tollgate's packets go: typical use in a separate network whose only exit is counted.
#![allow(clippy::print_stdout, reason = "the figures of a promise are for people")]

use std::process::Command;

use crate::cli_test::CliTest;

/// A network namespace with loopback and one dead-end interface. Prints nothing without the permission to
/// create one, or without `ip`.
const NETWORK: &str = r#"
tollgate=$0
{ echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 &&
  ip link set lo up &&
  ip link add out type veth peer name gone &&
  ip address add 198.51.100.2/24 dev out &&
  ip link set out arp off && ip link set out up && ip link set gone up &&
  ip route add default dev out; } || exit 1
echo "a network of its own"
sent() { awk '$1 == "out:" { print $11 }' /proc/net/dev; }
"#;

/// Sign-in, sync, tools, exports, a gate with background syncs, a demo of all services; then, to check the
/// counter, a server outside.
const DAY: &str = r#"
set -e
"$tollgate" sandbox whoop --unlimited > ready.json & sandbox=$!
trap 'kill $sandbox' EXIT
for _ in $(seq 100); do [ -s ready.json ] && break; sleep 0.1; done
url=$(sed 's/.*"url":"\([^"]*\)".*/\1/' ready.json)
export WHOOP_API_BASE_URL=$url WHOOP_OAUTH_BASE_URL=$url
export WHOOP_CLIENT_ID=sandbox-whoop-client WHOOP_CLIENT_SECRET=sandbox-whoop-secret
sed 's/.*"tokens":\({[^}]*}\).*/\1/' ready.json | "$tollgate" connect whoop --tokens -
"$tollgate" sync whoop --full
"$tollgate" export whoop --out everything
"$tollgate" stdio whoop <<'MESSAGES'
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"health_check","arguments":{"live":true}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_whoop_sleeps","arguments":{"fresh":true,"limit":3}}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"sync_whoop","arguments":{}}}
MESSAGES
"$tollgate" server add whoop --builtin whoop
"$tollgate" grant create agent --server whoop
timeout 3 "$tollgate" up --listen 127.0.0.1:0 || true
timeout 4 "$tollgate" --home demonstration up --demo --listen 127.0.0.1:0 || true
"$tollgate" doctor --thorough || true
echo "sent by then: $(sent)"
timeout 3 "$tollgate" server add away --url https://192.0.2.1/mcp || true
echo "sent at last: $(sent)"
"#;

#[test]
fn p29_nothing_is_sent_anywhere_but_to_what_the_owner_configured() {
    let test = CliTest::new();
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", &[NETWORK, DAY].concat(), env!("CARGO_BIN_EXE_tollgate")])
        .env("HOME", test.path(""))
        .env("TOLLGATE_HOME", test.home())
        .current_dir(test.path(""))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    if !printed.starts_with("a network of its own") {
        println!("P29: not tried, because this user cannot make a network of its own");
        return;
    }
    let all = format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{all}");
    let count = |words: &str| -> u64 {
        let line = printed.lines().find_map(|line| line.strip_prefix(words));
        line.unwrap_or_else(|| panic!("{all}")).parse().unwrap()
    };
    for part in ["\"id\":4", "whoop: ", "http://127.0.0.1:"] {
        assert!(all.contains(part), "{part} is not in {all}");
    }
    assert_eq!(count("sent by then: "), 0, "{all}");
    assert!(count("sent at last: ") > 0, "packets are counted: {all}");
    println!("P29: 0 packets left for anywhere but the pretended services");
}

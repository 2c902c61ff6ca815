//! The service as tools see it that know nothing of it beforehand.

use std::process::Command;

use tollgate_testkit::peers;

use crate::support::Service;

fn run(mut command: Command) -> String {
    let output = command.output().expect("the peer starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

/// gRPC's own Python packages: finds the services, makes messages of what reflection says, and calls every method.
#[test]
fn python_finds_and_calls_all_services() {
    let Some(python) = peers::python() else {
        return peers::skip("reflection", "the Python clients");
    };
    let service = Service::embedded();
    let mut command = Command::new(python);
    command
        .arg(peers::clients().join("rls_reflection.py"))
        .arg(service.server().grpc_addr().expect("TCP").to_string());
    let output = run(command);
    assert_eq!(output.lines().last(), Some("ok"), "{output}");
}

#[test]
fn grpcurl_lists_describes_and_calls() {
    let Some(grpcurl) = peers::find_or_skip("reflection", "grpcurl") else {
        return;
    };
    let service = Service::embedded();
    let addr = service.server().grpc_addr().expect("TCP").to_string();
    let ask = |args: &[&str]| {
        let mut command = Command::new(&grpcurl);
        command.args(["-plaintext", "-max-time", "60"]).args(args);
        run(command)
    };
    assert_eq!(
        ask(&[&addr, "list"]),
        "envoy.service.ratelimit.v3.RateLimitService\ngrpc.health.v1.Health\n\
         grpc.reflection.v1.ServerReflection\ngrpc.reflection.v1alpha.ServerReflection\n"
    );
    let described = ask(&[
        &addr,
        "describe",
        "envoy.service.ratelimit.v3.RateLimitRequest",
    ]);
    assert!(
        described.contains(
            "repeated .envoy.extensions.common.ratelimit.v3.RateLimitDescriptor descriptors = 2;"
        ),
        "{described}"
    );
    let request = r#"{"domain":"test","descriptors":[{"entries":[{"key":"ten","value":"curl"}],"hitsAddend":"4"}]}"#;
    let method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let reply = ask(&["-d", request, &addr, method]);
    assert!(reply.contains(r#""overallCode": "OK""#), "{reply}");
    assert!(reply.contains(r#""limitRemaining": 6"#), "{reply}");
    assert!(reply.contains(r#""unit": "MONTH""#), "{reply}");
    let reply = ask(&[&addr, "grpc.health.v1.Health/Check"]);
    assert!(reply.contains("SERVING"), "{reply}");
}

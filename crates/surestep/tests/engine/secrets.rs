//! Credentials in plans: what is to run has none, or is refused before a byte is written; what is said is scrubbed.

use surestep::{Plan, PlanError, StepError};

use crate::common::*;

/// A token, put together when the test runs, and the pieces of it that must be nowhere.
fn token() -> String {
    ["gh", "p_", "q7Zk2Lw9Xc4Vb6Nm1As3", "Df5Gh8Jk0PoIuYtR"].concat()
}

fn assert_untold(text: &str) {
    let token = token();
    for piece in token.as_bytes().windows(6) {
        let piece = std::str::from_utf8(piece).unwrap();
        assert!(!text.contains(piece), "{piece} is in {text}");
    }
}

fn plan_text(operation: &str, fields: &str) -> Plan {
    let text = format!(
        r#"{{"format":"surestep.plan/1","operations":[
            {{"kind":"note","repo":"acme/site","target":"t0","body":{{}}}},{operation}]{fields}}}"#
    );
    Plan::parse(text.as_bytes()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_credential_in_what_is_to_run_is_refused_before_anything_is_written() {
    let token = token();
    let operation = |repo: &str, target: &str, body: &str| {
        format!(r#"{{"kind":"note","repo":"{repo}","target":"{target}","body":{body}}}"#)
    };
    let escaped: String = token.bytes().map(|b| format!("\\u{b:04x}")).collect();
    let cases = [
        (
            operation("r", "t", &format!(r#"{{"headers":{{"x":"a {token}"}}}}"#)),
            "$.operations[1].body.headers.x",
        ),
        (operation("r", "t", &format!(r#"{{"run":["a","b","{token}"]}}"#)), "$.operations[1].body.run[2]"),
        (operation("r", "t", &format!(r#"["{escaped}"]"#)), "$.operations[1].body[0]"),
        (operation("r", "t", &format!(r#"{{"n":1,"{token}":2}}"#)), "$.operations[1].body.(key 2)"),
        (operation("r", "t", &format!(r#"{{"$secret":"{token}"}}"#)), "$.operations[1].body[\"$secret\"]"),
        (operation(&format!("https://x:{token}@h/r"), "t", "{}"), "$.operations[1].repo"),
        (operation("r", &token, "{}"), "$.operations[1].target"),
    ];
    let fields = r#","verdict":"done""#;
    let mut plans: Vec<(Plan, &str)> =
        cases.iter().map(|(operation, path)| (plan_text(operation, fields), *path)).collect();
    let verdict = format!(r#","verdict":"used {token}""#);
    plans.push((plan_text(&operation("r", "t", "{}"), &verdict), "$.verdict"));
    // An unknown kind is not even looked for: its words could have the value.
    let unknown = operation("r", "t", &format!(r#"{{"x":"{token}"}}"#)).replace("note", "fax");
    plans.push((plan_text(&unknown, fields), "$.operations[1].body.x"));
    for (plan, at) in plans {
        let world = World::new();
        let error = world.engine().step(world.fresh(plan.clone())).await.unwrap_err();
        let StepError::Plan(PlanError::Secret { class, path }) = &error else { panic!("{error:?}") };
        assert_eq!(path, at);
        assert!(["github", "url-password"].contains(&class.as_str()), "{class}");
        assert_eq!((error.code(), error.exit_code()), ("SE0210", surestep::exit::USAGE));
        assert!(error.to_string().contains(at) && error.to_string().contains(class));
        assert_untold(&format!("{error} {error:?}"));
        assert_eq!((world.store.published(), world.store.holds()), (0, 0));
        assert_eq!((world.remote.calls().len(), world.remote.asked()), (0, 0));
        let waited = world.engine().drive(world.fresh(plan), surestep::Wait::default()).await.unwrap_err();
        assert_untold(&format!("{waited} {waited:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_a_secret_has_one_form_and_any_other_is_refused() {
    let operation = |body: &str| format!(r#"{{"kind":"note","repo":"r","target":"t","body":{body}}}"#);
    let long = format!(r#"{{"x":{{"$secret":"{}"}}}}"#, "N".repeat(101));
    for (body, at) in [
        (r#"{"x":{"$secret":"A","more":1}}"#, "$.operations[1].body.x"),
        (r#"{"x":{"a":{"$secret":"B"},"$secret":"A"}}"#, "$.operations[1].body.x"),
        (r#"{"x":[{"$secret":7}]}"#, "$.operations[1].body.x[0]"),
        (r#"{"x":[{"$secret":["A"]}]}"#, "$.operations[1].body.x[0]"),
        (r#"{"$secret":null}"#, "$.operations[1].body"),
        (r#"{"$secret":{"$secret":"A"}}"#, "$.operations[1].body"),
        (r#"{"x":{"\u0024secret":"A B"}}"#, "$.operations[1].body.x"),
        (r#"{"x":{"$secret":""}}"#, "$.operations[1].body.x"),
        (r#"{"x":{"$secret":"1A"}}"#, "$.operations[1].body.x"),
        (r#"{"x":{"$secret":"../A"}}"#, "$.operations[1].body.x"),
        (&long, "$.operations[1].body.x"),
    ] {
        let world = World::new();
        let error = world.engine().step(world.fresh(plan_text(&operation(body), ""))).await.unwrap_err();
        let StepError::Plan(PlanError::SecretReference { path, .. }) = &error else {
            panic!("{body}: {error:?}")
        };
        assert_eq!(path, at, "{body}");
        assert_eq!((error.code(), error.exit_code()), ("SE0211", surestep::exit::USAGE));
        assert_eq!((world.store.published(), world.store.holds(), world.remote.calls().len()), (0, 0, 0));
    }
    let world = World::new();
    let body = r#"{"a":{"$secret":"_GITHUB.token-1"},"b":["$secret",{"c":{"$secret":"AWS_SECRET_ACCESS_KEY"}}],
        "Authorization":{"$secret":"T"},"d":"{\"$secret\":7}"}"#;
    let engine = world.builder().secrets(Any).build().unwrap();
    let step = engine.step(world.fresh(plan_text(&operation(body), ""))).await.unwrap();
    finished(&step);
    world.check().await;
}

/// Has every secret.
struct Any;

#[async_trait::async_trait]
impl surestep::SecretSource for Any {
    async fn secret(&self, name: &str) -> Result<surestep::Secret, surestep::SecretError> {
        Ok(surestep::Secret::new(format!("the value of {name}")))
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_about_a_plan_is_scrubbed_on_its_way_and_binds_the_same_plan() {
    let token = token();
    let world = World::new();
    let fields = format!(
        r#","verdict":"done","agent":"a {token}","task":"t {token}","rationale":"r {token}",
        "conversation":[{{"role":"user","content":[1.50,"x {token}"],"{token}":true}},{{"role":"assistant"}}]"#
    );
    let operation = format!(r#"{{"kind":"note","repo":"r","target":"t","body":{{}},"call_id":"{token}"}}"#);
    let plan = plan_text(&operation, &fields);
    let step = world.engine().step(world.fresh(plan.clone())).await.unwrap();
    finished(&step);
    let stored = format!("{:?}", world.commits().await);
    assert_untold(&stored);
    assert!(stored.contains("[scrubbed:github]"), "{stored}");
    let said = format!("{:?}", step.envelope.conversation());
    assert_untold(&said);
    let masked = r#"{"[scrubbed:github]":true,"content":[1.50,"x [scrubbed:github]"],"role":"user"}"#;
    assert_eq!(step.envelope.conversation()[0].as_str(), masked);
    assert_eq!(step.envelope.conversation()[1].as_str(), r#"{"role":"assistant"}"#);
    // Offered again it is the plan that is bound.
    finished(&world.engine().step(world.fresh(plan)).await.unwrap());
    assert_eq!(world.remote.calls().len(), 2);
    world.check().await;
}

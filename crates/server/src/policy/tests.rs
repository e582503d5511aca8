use std::sync::Arc;

use fishplate_contract::Principal;
use fishplate_jobs::store::quota::{OwnerLimits, OwnerQuotas as _};
use fishplate_programs::descriptor::SourceText;

use super::file::PolicyFile;
use super::quotas::PolicyQuotas;
use super::read::{CheckedPolicy, check, is_policy};
use super::rules::{AccessPolicy, Decision};
use crate::audit::AuditLog;
use crate::dispatch::authorise::{Access, Action, Authoriser as _};
use crate::settings::Settings;

fn checked(text: &str) -> CheckedPolicy {
    check(SourceText { name: "policy.toml".to_owned(), text: text.to_owned() })
}

#[track_caller]
fn policy(text: &str) -> AccessPolicy {
    let checked = checked(text);
    let told: Vec<_> = checked.diagnostics.iter().map(|it| it.line(&checked.source)).collect();
    checked.policy.unwrap_or_else(|| panic!("{told:#?}"))
}

/// What somebody (empty: without a name) may do with a service, and an operation of it behind a point.
#[track_caller]
fn may(policy: &AccessPolicy, user: &str, service: &str, action: &str) -> bool {
    let (service, operation) = service.split_once('.').unwrap_or((service, ""));
    let principal = Principal::named(user);
    let action = Action::from_name(action).unwrap();
    policy.decide(&Access { principal: &principal, service, operation, action }).is_allowed()
}

#[test]
fn three_lines_give_somebody_all_of_a_service_and_nobody_anything_else() {
    let policy = policy("[[allow]]\nwho = ['ada', 'bob']\nservice = 'heat'\n");
    let is_said = |action: &Action| matches!(action, Action::Register | Action::Reuse);
    let all = Action::all().filter(|action| !is_said(action));
    for action in all.map(Action::name) {
        assert!(may(&policy, "ada", "heat", action) && may(&policy, "bob", "heat", action));
        for (user, service) in [("carl", "heat"), ("", "heat"), ("ada", "mesh"), ("Ada", "heat")] {
            assert!(!may(&policy, user, service, action), "{user} {service} {action}");
        }
    }
}

#[test]
fn the_name_of_a_site_is_allowed_by_name_only() {
    let policy = policy(
        "[[allow]]\nwho = '@anybody'\n\
         [[allow]]\nwho = 'robot'\nservice = 'sites'\noperation = 'berlin'\nmay = 'register'\n\
         [[deny]]\nwho = 'eve'\n[[allow]]\nwho = 'eve'\nmay = 'register'\n",
    );
    assert!(may(&policy, "robot", "sites.berlin", "register"));
    for (user, site) in [("robot", "london"), ("ada", "berlin"), ("", "berlin"), ("eve", "berlin")]
    {
        assert!(!may(&policy, user, &format!("sites.{site}"), "register"), "{user} {site}");
    }
    assert!(may(&policy, "", "sites", "pass"));
}

#[test]
fn groups_everybody_and_nobody_in_particular() {
    let policy = policy(
        "[groups]\nchemists = ['ada', 'bob']\n\
         [[allow]]\nwho = '@chemists'\nservice = 'heat'\n\
         [[allow]]\nwho = '@authenticated'\nservice = 'mesh'\n\
         [[allow]]\nwho = '@anybody'\nservice = 'metrics'\n",
    );
    for (service, users) in [
        ("heat", &["ada", "bob"][..]),
        ("mesh", &["ada", "bob", "carl"]),
        ("metrics", &["ada", "bob", "carl", ""]),
        ("flow", &[]),
    ] {
        for user in ["ada", "bob", "carl", ""] {
            assert_eq!(
                may(&policy, user, service, "call"),
                users.contains(&user),
                "{user} {service}"
            );
        }
    }
    // A group's name is no user's.
    assert!(!may(&policy, "@chemists", "heat", "call"));
}

#[test]
fn what_a_rule_denies_no_other_allows() {
    let policy = policy(
        "[[deny]]\nwho = 'mallory'\n\
         [[deny]]\nwho = '@anybody'\nservice = 'heat'\nmay = 'kill'\n\
         [[deny]]\nwho = '@anybody'\nservice = 'heat'\noperation = 'melt'\n\
         [[allow]]\nwho = '@authenticated'\n\
         [[allow]]\nwho = 'mallory'\n",
    );
    assert!(!may(&policy, "mallory", "mesh", "call") && !may(&policy, "ada", "heat", "kill"));
    assert!(may(&policy, "ada", "heat.warm", "call") && may(&policy, "ada", "mesh", "kill"));
    assert!(!may(&policy, "ada", "heat.melt", "spawn"));
    assert!(may(&policy, "ada", "heat", "status"), "what is about jobs is of no operation");
}

#[test]
fn who_may_do_anything_may_read_how_and_look_at_jobs_of_an_operation() {
    let policy = policy(
        "[[allow]]\nwho = 'ada'\nservice = 'heat'\noperation = 'warm'\nmay = ['spawn', 'see']\n",
    );
    for (service, action, allowed) in [
        ("heat", "describe", true),
        ("heat.warm", "spawn", true),
        ("heat.warm", "results", true),
        ("heat", "status", true),
        ("heat.melt", "spawn", false),
        ("heat.warm", "call", false),
        ("heat", "kill", false),
        ("mesh", "describe", false),
    ] {
        assert_eq!(may(&policy, "ada", service, action), allowed, "{service} {action}");
    }
}

#[test]
fn an_address_is_a_permission_until_a_rule_denies_it() {
    let policy = policy("[[allow]]\nwho = 'ada'\nservice = 'heat'\n");
    assert!(may(&policy, "", "data", "read") && may(&policy, "", "session", "read"));
    assert!(!may(&policy, "ada", "data", "upload") && !may(&policy, "ada", "metrics", "read"));
    let closed =
        self::policy("[[deny]]\nwho = '@anybody'\nservice = 'data'\n[[allow]]\nwho = '@anybody'\n");
    assert!(!may(&closed, "", "data", "read") && may(&closed, "", "session", "read"));
}

#[test]
fn a_decision_names_the_rule() {
    let policy = policy(
        "# ours\n[[allow]]\nwho = '@authenticated'\n\n[[deny]]\nwho = 'bob'\nmay = 'kill'\n",
    );
    let decide = |user: &str| {
        let principal = Principal::named(user);
        let action = Action::from_name("kill").unwrap();
        let access = Access { principal: &principal, service: "heat", operation: "", action };
        match policy.decide(&access) {
            Decision::Allowed(rule) => Some((true, rule.line)),
            Decision::Denied(rule) => Some((false, rule.line)),
            _ => None,
        }
    };
    assert_eq!(
        [decide("ada"), decide("bob"), decide("")],
        [Some((true, 2)), Some((false, 5)), None]
    );
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_what_would_be_right() {
    for (text, told) in [
        (
            "[[allow]]\nwho = 'ada'\nservces = 'heat'\n",
            "3:1: error: [[allow]] has no key `servces` (`service` is one)",
        ),
        (
            "[[allow]]\nservice = 'heat'\n",
            "1:1: error: [[allow]] does not say `who` (a user, a group as @NAME, @authenticated or @anybody)",
        ),
        (
            "[[allow]]\nwho = '@chemist'\n[groups]\nchemists = ['ada']\n",
            "2:7: error: there is no group `@chemist` (`@chemists` is one)",
        ),
        (
            "[[allow]]\nwho = 'ada'\nmay = ['call', 'kil']\n",
            "3:16: error: `kil` is nothing one can do (`kill` is something)",
        ),
        (
            "[[allow]]\nwho = []\n",
            "2:7: error: `who` names nothing (leave `who` out to mean all, or name some)",
        ),
        ("[[allow]]\nwho = 7\n", "2:7: error: `who` is a name or a list of names, not an integer"),
        (
            "[[allow]]\nwho = 'ada'\noperation = 'melt'\n",
            "3:1: error: `operation` needs a `service` whose operations these are",
        ),
        (
            "[groups]\nanybody = []\n",
            "2:1: error: `@anybody` is there in every policy (give this group another name)",
        ),
        (
            "[groups]\na = ['@b']\n",
            "2:6: error: groups have users as members, no groups (name both groups in `who`)",
        ),
        ("[alow]\nwho = 'ada'\n", "1:2: error: a policy has no key `alow` (`allow` is one)"),
        ("allow = 'ada'\n", "1:9: error: `allow` is a list of tables, not a string"),
        ("[[allow]]\nwho = 'ada", "2:11: error: invalid literal string"),
        (
            "[groups]\nchemists = ['ada']\n[[allow]]\nwho = 'chemists'\n",
            "4:7: warning: this is the user `chemists` (the group is `@chemists`)",
        ),
        ("# nothing\n", "1:1: warning: nobody may do anything"),
    ] {
        let checked = checked(text);
        let lines: Vec<_> = checked.diagnostics.iter().map(|it| it.line(&checked.source)).collect();
        let wanted = format!("policy.toml:{told}");
        assert!(lines.iter().any(|line| line.starts_with(&wanted)), "{wanted}\n{lines:#?}");
        assert_eq!(checked.policy.is_none(), told.contains("error"), "{text}");
    }
}

#[test]
fn a_policy_is_told_from_a_service() {
    assert!(is_policy("# ours\n [[allow]] # all\nwho = 'ada'\n") && is_policy("[groups]\n"));
    assert!(is_policy("[[deny]]\nwho = \n") && is_policy("[groups\na = ["));
    assert!(!is_policy("name = 'allow'\ncommand = 'p'\n[input.groups]\nmin = 1\n"));
}

#[test]
fn a_change_holds_at_once_and_half_a_file_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    let audit = Arc::new(AuditLog::open(directory.path(), &Settings::new("http://localhost")));
    let open = || PolicyFile::open(&path, Arc::clone(&audit));
    assert!(open().is_err(), "there is none");
    std::fs::write(&path, "[[allow]]\nwho = 'ad").unwrap();
    assert!(open().unwrap_err().to_string().contains(":2:10: error"));
    std::fs::write(&path, "[[allow]]\nwho = 'ada'\n").unwrap();
    let file = open().unwrap();
    let users = ["ada", "bob"].map(Principal::named);
    let allowed = || {
        let action = Action::from_name("call").unwrap();
        let access = |principal| Access { principal, service: "heat", operation: "", action };
        users.each_ref().map(|user| file.authorise(&access(user)).is_ok())
    };
    assert_eq!(allowed(), [true, false]);
    std::fs::write(&path, "[[allow]]\nwho = 'bob").unwrap();
    assert_eq!(allowed(), [true, false]);
    file.reload().unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(allowed(), [true, false]);
    std::fs::write(&path, "[[allow]]\nwho = 'bob'\n").unwrap();
    assert_eq!(allowed(), [false, true]);
    file.reload().unwrap();
    assert_eq!(allowed(), [false, true]);
}

#[test]
fn a_refusal_says_what_is_needed_and_not_what_there_is() {
    let ada = Principal::named("ada");
    let action = Action::from_name("call").unwrap();
    let access = Access { principal: &ada, service: "heat", operation: "warm", action };
    let fault = access.forbidden();
    let told = "Forbidden: this needs call of heat (operation warm) for ada, which the operator of this server has \
                not allowed";
    assert_eq!(fault.to_string(), told);
}

#[test]
fn the_reference_tells_all_that_can_be_done() {
    let reference = include_str!("../../../../docs/reference/policy.md");
    for action in Action::all().map(Action::name) {
        assert!(reference.contains(&format!("`{action}`")), "{action}");
    }
}

#[test]
fn what_a_policy_says_of_a_user_counts_more_than_what_it_says_of_many() {
    let policy = policy(
        "[[allow]]\nwho = '@anybody'\n\
         [groups]\nchemists = ['ada', 'bob', 'carl']\nlab = ['ada']\n\
         [[quota]]\nwho = '@anybody'\nrunning = 1\n\
         [[quota]]\nwho = '@authenticated'\ncpu_time = '1h'\ntraffic = '1MiB'\n\
         [[quota]]\nwho = '@chemists'\ncpu_time = '10h'\ndisk = '1GiB'\n\
         [[quota]]\nwho = ['@lab']\ncpu_time = '20h'\n\
         [[quota]]\nwho = 'bob'\ncpu_time = '2h'\ndisk = 'none'\nqueued = 7\n",
    );
    let defaults = OwnerLimits { disk: Some(5), queued: Some(3), ..OwnerLimits::default() };
    let quotas = PolicyQuotas::new(Arc::new(policy), defaults);
    let told = |owner: &str| {
        let OwnerLimits { running, queued, cpu_time, traffic, disk, .. } = quotas.of(owner);
        [running, queued, cpu_time.map(|millis| millis / 3_600_000), traffic, disk]
    };
    let mebibyte = Some(1 << 20);
    assert_eq!(told(""), [Some(1), Some(3), None, None, Some(5)]);
    assert_eq!(told("dora"), [Some(1), Some(3), Some(1), mebibyte, Some(5)]);
    assert_eq!(told("carl"), [Some(1), Some(3), Some(10), mebibyte, Some(1 << 30)]);
    assert_eq!(told("ada"), [Some(1), Some(3), Some(20), mebibyte, Some(1 << 30)]);
    assert_eq!(told("bob"), [Some(1), Some(7), Some(2), mebibyte, None]);
}

#[test]
fn a_quota_that_is_none_is_told_where_and_what_would_be_right() {
    let allow = "[[allow]]\nwho = '@anybody'\n";
    for (quota, expected) in [
        ("cpu_time = '1h'", "does not say `who`"),
        ("who = 'ada'", "does not say how much of what"),
        ("who = 'ada'\ncpu_time = 5", "`cpu_time` takes a duration such as 30s or 2h, or \"none\""),
        ("who = 'ada'\nrunning = 'many'", "`running` takes a whole number, or \"none\""),
        ("who = 'ada'\nmemory = '1GiB'", "[[quota]] has no key `memory`"),
        ("who = '@nobody'\ndisk = '1GiB'", "there is no group `@nobody`"),
    ] {
        let checked = checked(&format!("{allow}[[quota]]\n{quota}\n"));
        let told: Vec<_> = checked.diagnostics.iter().map(|it| it.line(&checked.source)).collect();
        assert!(checked.policy.is_none(), "{quota}");
        assert!(told.iter().any(|line| line.contains(expected)), "{quota}: {told:#?}");
    }
    assert!(is_policy("[[quota]]\nwho = 'ada'\ndisk = '1GiB'\n"));
}

#[test]
fn nobody_is_asked_for_a_name_at_addresses_of_data() {
    let policy =
        policy("[[deny]]\nwho = ['ada', '@authenticated']\nservice = 'data'\nmay = 'read'\n");
    assert!(may(&policy, "ada", "data", "read"), "there the request of ada has no name either");
    let told = checked("[[deny]]\nwho = 'ada'\nservice = 'data'\nmay = ['read', 'upload']\n");
    let told: Vec<_> = told.diagnostics.iter().map(|it| it.line(&told.source)).collect();
    assert!(told.iter().any(|line| line.contains("`read` is denied to no one")), "{told:#?}");
}

#[test]
fn results_are_shared_by_those_whom_one_rule_allows_it() {
    let policy = policy(
        "[groups]\nchemists = ['ada', 'eve', 'tim']\nphysicists = ['bob', 'dan', 'ada']\n\
         [[allow]]\nwho = '@authenticated'\n\
         [[allow]]\nwho = '@chemists'\nservice = 'heat'\nmay = 'reuse'\n\
         [[allow]]\nwho = '@physicists'\nservice = 'heat'\noperation = 'solve'\nmay = ['call', 'reuse']\n\
         [[deny]]\nwho = 'tim'\nmay = 'reuse'\n",
    );
    let may = |user: &str, owner: &str, service: &str, operation: &str| {
        let (principal, action) = (&Principal::named(user), Action::Reuse);
        let access = Access { principal, service, operation, action };
        policy.may_reuse(&access, &Principal::named(owner))
    };
    for (user, owner, solve, mesh) in [
        ("ada", "eve", true, true),
        ("eve", "ada", true, true),
        ("bob", "dan", true, false),
        ("ada", "bob", true, false),
        // They are of different circles, though each may.
        ("eve", "bob", false, false),
        // It is denied to one of the two.
        ("eve", "tim", false, false),
        ("tim", "eve", false, false),
        // Who may do everything has not been told of others' results.
        ("eve", "sue", false, false),
        ("sue", "eve", false, false),
        ("", "eve", false, false),
        ("eve", "", false, false),
    ] {
        assert_eq!(may(user, owner, "heat", "solve"), solve, "{user} {owner}");
        assert_eq!(may(user, owner, "heat", "mesh"), mesh, "{user} {owner}");
        assert!(!may(user, owner, "mesh", "solve"), "{user} {owner}");
    }
}

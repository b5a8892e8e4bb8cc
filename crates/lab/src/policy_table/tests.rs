use super::*;

fn world(families: &[bool]) -> World {
    let addresses = PodId::all().enumerate().map(|(at, pod)| {
        let both = [format!("10.244.{}.{}", at % 3, at + 5), format!("fd00:10:244:{}::{:x}", at % 3, at + 5)];
        let of = families.iter().map(|v6| both[usize::from(*v6)].parse().unwrap());
        (pod, of.collect())
    });
    let ranges = ["10.244.0.0/16".parse().unwrap(), "fd00:10:244::/48".parse().unwrap()];
    World {
        prefix: "policy-".to_owned(),
        addresses: addresses.collect(),
        ranges: families.iter().map(|v6| ranges[usize::from(*v6)]).collect(),
    }
}

#[test]
fn what_scenarios_say_by_hand_is_what_policies_mean_in_every_cell_and_family() {
    let scenarios = scenarios().unwrap();
    assert!(scenarios.len() >= 30, "{}", scenarios.len());
    for families in [vec![false], vec![true], vec![false, true]] {
        let world = world(&families);
        for scenario in &scenarios {
            for (at, step) in scenario.steps.iter().enumerate() {
                let policies = step.policies(&scenario.title, &world).unwrap();
                let cluster = model::cluster(&world, step, &policies)
                    .unwrap_or_else(|why| panic!("{}: {why}", scenario.title));
                let cells = cells(&families);
                assert_eq!(cells.len(), 9 * 9 * 2 * 2 * families.len());
                for cell in cells {
                    let meant = model::open(&cluster, &world, &cell);
                    assert_eq!(step.open(&cell), meant, "{}, step {at}: {cell}", scenario.title);
                }
            }
        }
    }
}

#[test]
fn no_two_scenarios_have_one_title_and_no_step_is_without_a_difference() {
    let scenarios = scenarios().unwrap();
    let titles: std::collections::BTreeSet<&str> = scenarios.iter().map(|s| s.title.as_str()).collect();
    assert_eq!(titles.len(), scenarios.len());
    for scenario in &scenarios {
        for pair in scenario.steps.windows(2) {
            let differs = cells(&[false]).iter().any(|cell| pair[0].open(cell) != pair[1].open(cell));
            assert!(differs, "{}: two steps with one table", scenario.title);
        }
    }
}

#[test]
fn expectations_that_make_no_sense_are_refused() {
    for wrong in [
        "",
        "deny",
        "forbid * -> x/a",
        "deny * x/a",
        "deny q/a -> x/a",
        "deny * -> x/a ICMP",
        "deny * -> x/a TCP http",
        "deny * -> x/a TCP 80 81",
    ] {
        assert!(wrong.parse::<Expectation>().is_err(), "{wrong:?}");
    }
}

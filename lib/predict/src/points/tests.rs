// SPDX-License-Identifier: MIT
//! Points: what is read, how flows are placed, and every mistake with its line and column.

use super::*;
use proptest::prelude::*;

fn refused(text: &str) -> String {
    parse(text.as_bytes(), "p.csv").expect_err("a mistake").to_string()
}

#[test]
fn all_columns_are_read() {
    let text = "# measured on a Sunday\n\
        note, mpps ,flows,cores,frame_size,two_way,burst,routes,destinations,bound,line_gbps,published_eq5,#x\n\
        \n\
        \"a, b\",1.5,4,2,64,0,16,1000,50,cpu,25,1.23,\n\
        # between\n\
        ,1,4,2,64,,,,,,,,\n";
    let points = parse(text.as_bytes(), "p.csv").expect("points");
    assert_eq!(points.len(), 2);
    let point = &points[0];
    assert_eq!((point.line, point.flows, point.cores, point.frame_size, point.two_way), (4, 4, 2, 64, false));
    assert!((point.gbps - 1.5 * 84.0 * 8.0 / 1000.0).abs() < 1e-12, "{}", point.gbps);
    assert_eq!((point.burst, point.working_set, point.bound), (Some(16), Some(3200.0), Some(Bound::Cpu)));
    assert_eq!((point.line_gbps, point.note_number("published_eq5")), (Some(25.0), Some(1.23)));
    assert_eq!(point.notes[0], ("note".to_owned(), "a, b".to_owned()));
    let crlf = parse(text.replace('\n', "\r\n").as_bytes(), "p.csv").expect("points");
    assert_eq!(crlf, points, "lines as Windows ends them");
    // Two cores of one million packets a second, half a million each.
    assert!((points[1].service_ns() - 2000.0).abs() < 1e-9);
    assert_eq!((points[1].line, points[1].two_way, points[1].working_set), (6, true, None));
}

#[test]
fn every_line_with_a_mistake_is_said() {
    let said = refused("flows,cores,frame_size,gbps\nx,1,64,1\n1,1,64,1\n1,1,64\n1,1,64,fast\n");
    let lines: Vec<&str> = said.lines().map(|line| line.split(": found").next().unwrap_or_default()).collect();
    assert_eq!(lines, ["p.csv:2: column flows", "p.csv:4", "p.csv:5: column gbps"], "{said}");
    let many = refused(&format!("flows,cores,frame_size,gbps\n{}", "x,1,64,1\n".repeat(25)));
    assert_eq!((many.lines().count(), many.lines().last()), (21, Some("... and 5 lines more")), "{many}");
}

#[test]
fn mistakes_have_their_line_and_column() {
    let with = |row: &str| {
        refused(&format!("flows,cores,frame_size,gbps,two_way,burst,bound,line_gbps\n1,1,64,1,,,,\n{row}\n"))
    };
    for (row, expected) in [
        ("x,1,64,1,,,,", "p.csv:3: column flows: found \"x\", expected a whole number, 1 to"),
        (",1,64,1,,,,", "p.csv:3: column flows: found nothing, expected a whole number"),
        ("1,65,64,1,,,,", "p.csv:3: column cores: found \"65\", expected a whole number, 1 to 64"),
        ("1,2,64,1,,,,", "p.csv:3: column cores: found \"2\", expected at most 1, one for each flow"),
        ("1,1,63,1,,,,", "p.csv:3: column frame_size: found \"63\", expected a whole number, 64 to 9216"),
        ("1,1,64,-1,,,,", "p.csv:3: column gbps: found \"-1\", expected a number > 0"),
        ("1,1,64,0,,,,", "p.csv:3: column gbps: found \"0\", expected a number > 0"),
        ("1,1,64,inf,,,,", "p.csv:3: column gbps: found \"inf\", expected a number"),
        ("1,1,64,NaN,,,,", "p.csv:3: column gbps: found \"NaN\", expected a number"),
        ("1,1,64,,,,,", "p.csv:3: column gbps: found nothing, expected a number > 0"),
        ("1,1,64,1,2,,,", "p.csv:3: column two_way: found \"2\", expected 0 or 1"),
        ("1,1,64,1,1,,,", "p.csv:3: column two_way: found \"1\", expected 0 for a single flow"),
        ("1,1,64,1,,0,,", "p.csv:3: column burst: found \"0\", expected a whole number, 1 to 1024"),
        ("1,1,64,1,,,both,", "p.csv:3: column bound: found \"both\", expected cpu, line or nothing"),
        ("1,1,64,11,,,,10", "p.csv:3: found 11 Gbit/s, expected at most 10 Gbit/s on the wire"),
        ("1,1,64,1,,", "p.csv:3: found 6 values, expected 8, as the first line names"),
    ] {
        let said = with(row);
        assert!(said.starts_with(expected), "{row}: {said}");
    }
    for (text, expected) in [
        ("", "p.csv:1: found an empty file, expected a line that names the columns"),
        ("flows,cores,frame_size,gbps\n", "p.csv:1: found no points"),
        (
            "# x\nflows,cores,framesize,gbps\n1,1,64,1\n",
            "p.csv:2: found the unknown column \"framesize\", expected one of flows",
        ),
        ("flows,cores,gbps\n1,1,1\n", "p.csv:1: found no column frame_size"),
        ("flows,cores,frame_size\n1,1,64\n", "p.csv:1: found no column gbps or mpps"),
        ("flows,cores,frame_size,gbps,mpps\n1,1,64,1,1\n", "p.csv:1: found both columns gbps, mpps"),
        ("flows,cores,frame_size,gbps,cores\n1,1,64,1,1\n", "p.csv:1: found the column cores twice"),
        (
            "flows,cores,frame_size,gbps,routes,working_set_bytes\n1,1,64,1,1,1\n",
            "p.csv:1: found both columns working_set_bytes, routes",
        ),
    ] {
        let said = refused(text);
        assert!(said.starts_with(expected), "{text}: {said}");
    }
    let said =
        parse(b"flows,cores,frame_size,gbps\n1,1,64,1\n\xff,1,64,1\n", "p.csv").expect_err("no text").to_string();
    assert_eq!(said, "p.csv:3: found bytes that are no UTF-8, expected text");
}

#[test]
fn files_have_bounds() {
    let rows = "1,1,64,1\n".repeat(MAX_POINTS + 1);
    let said = refused(&format!("flows,cores,frame_size,gbps\n{rows}"));
    assert!(said.starts_with("p.csv:10002: found one point more, expected at most 10000"), "{said}");
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("large.csv");
    fs::File::create(&file).and_then(|f| f.set_len(MAX_BYTES + 2)).expect("a large file");
    assert!(load(&file).expect_err("too large").to_string().contains("more than 4 MiB"));
    let said = load(&folder.path().join("none.csv")).expect_err("no file").to_string();
    assert!(said.contains("none.csv: No such file"), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Placed one by one, flows come to the same cores.
    #[test]
    fn flows_are_placed_as_if_counted(flows in 1..500_u32, cores in 1..64_u32, two_way in any::<bool>()) {
        let cores = cores.min(flows);
        let text = format!("flows,cores,frame_size,gbps,two_way\n{flows},{cores},64,1,{}\n", u8::from(two_way && flows > 1));
        let point = &parse(text.as_bytes(), "p.csv").expect("a point")[0];
        let mut counted = [vec![0; cores as usize], vec![0; cores as usize]];
        for flow in 0..flows {
            counted[if point.two_way { flow as usize % 2 } else { 0 }][(flow % cores) as usize] += 1;
        }
        prop_assert_eq!(point.placed(), counted);
    }

    #[test]
    fn no_text_makes_it_panic(text in "(flows,cores,frame_size,gbps\n)?([0-9a-z#,.\"\n-]{0,80})") {
        let _ = parse(text.as_bytes(), "p.csv");
    }
}

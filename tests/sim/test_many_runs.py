"""A thousand runs: what no number of runs averages out stays in the interval."""

import json


def test_duration_of_a_thousand_runs_holds_the_truth(elf, labctl, tmp_path):
    arguments = ["--op", "sha256", "--op", "aes-128-ctr", "--runs", "1000", "--json"]
    for seed in ("1", "2"):
        done = labctl("measure", "--shunt", "1.3", "--seed", seed, *arguments, cwd=tmp_path)
        for row in json.loads(done.stdout)["results"]:
            assert row["n_runs"] == 1000
            assert abs(row["duration_mean_s"] - row["truth_duration_s"]) <= row["duration_expanded_s"], (seed, row)
            assert row["duration_expanded_s"] < 1e-4 * row["duration_mean_s"]

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
)

func TestQuantiles(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		buckets  map[float64]float64
		p50, p99 float64
	}{
		"Even": {
			"half of a bucket's values lie in its lower half",
			map[float64]float64{1: 0, 2: 100, math.Inf(1): 100},
			1.5, 1.99,
		},
		"Skewed": {
			"the bucket that holds the rank decides",
			map[float64]float64{1: 98, 2: 100, math.Inf(1): 100},
			50. / 98,
			1.5,
		},
		"Beyond": {
			"of what lies beyond the last bound only that is known",
			map[float64]float64{1: 10, math.Inf(1): 100},
			1,
			1,
		},
	}
	for name, c := range cases {
		p50, p99 := quantile(.5, c.buckets), quantile(.99, c.buckets)
		if math.Abs(p50-c.p50) > 1e-9 || math.Abs(p99-c.p99) > 1e-9 {
			t.Errorf("%s: %s: got %g and %g, want %g and %g", name, c.reason, p50, p99, c.p50, c.p99)
		}
	}
	if q := quantilesOf([]float64{3, 1, 2, 4}); q != (quantiles{P50: 2, P99: 4, Count: 4}) {
		t.Errorf("quantiles of samples: got %+v", q)
	}
}

func TestHistogramsAreReadFromAScrape(t *testing.T) {
	t.Parallel()
	const scraped = `# HELP something else
mcm_machine_info{name="a"} 1
controller_runtime_reconcile_time_seconds_bucket{controller="machine",le="0.5"} 3
controller_runtime_reconcile_time_seconds_bucket{controller="machine",le="+Inf"} 4
controller_runtime_reconcile_time_seconds_sum{controller="machine"} 9
`
	found, err := readHistograms(strings.NewReader(scraped))
	want := histograms{"machine": {.5: 3, math.Inf(1): 4}}
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Errorf("histograms (-want +got), %v:\n%s", err, diff)
	}
	spent := found.since(histograms{"machine": {.5: 1, math.Inf(1): 1}})
	if diff := cmp.Diff(histograms{"machine": {.5: 2, math.Inf(1): 3}}, spent); diff != "" {
		t.Errorf("what came on top (-want +got):\n%s", diff)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, got, want string
	}{
		"Thousands": {"thousands stand apart", figure(1234567.8), "1 234 568"},
		"Small":     {"three digits are as much as is known", figure(0.0123456), "0.0123"},
		"Whole":     {"no zeros behind the point", figure(9), "9"},
		"Missing":   {"what was not measured is no nought", figure(math.NaN()), "–"},
		"Growth":    {"how many times as much", growth(8.04, 8.1), "×1"},
		"FromZero":  {"nothing grows from nought", growth(0, 3), ""},
		"JSON": {
			"fractions are shortened, whole numbers kept",
			string(rounded([]byte(`{"a":1.23456789,"b":1000001,"c":6.1e-05}`))), `{"a":1.235,"b":1000001,"c":0.000061}`,
		},
	}
	for name, c := range cases {
		if c.got != c.want {
			t.Errorf("%s: %s: got %q, want %q", name, c.reason, c.got, c.want)
		}
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]float64{0, 0, 2.5}, ownWork([]float64{1, 10.1, 12.6}, bootTime), approximately); diff != "" {
		t.Errorf("own work is never negative (-want +got):\n%s", diff)
	}
	counts := increase(map[string]int{"a": 1, "b": 2}, map[string]int{"a": 1, "b": 5, "c": 3, "d": 9})
	if diff := cmp.Diff([]string{"d", "b", "c"}, byCount(counts)); diff != "" || sum(counts) != 15 {
		t.Errorf("counts that increased, sum %d (-want +got):\n%s", sum(counts), diff)
	}
	asked := tally{asked: map[audit.Key]int{
		{User: "a", Verb: "get", Target: "nodes"}: 1, {User: "b", Verb: "get", Target: "nodes"}: 2,
	}}
	if diff := cmp.Diff(map[string]int{"get nodes": 3}, asked.byTarget()); diff != "" {
		t.Errorf("requests by verb and resource (-want +got):\n%s", diff)
	}
}

// approximately compares floating point numbers.
var approximately = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })

func TestViolations(t *testing.T) {
	t.Parallel()
	good := func(n int) *record {
		r := &record{N: n, Pool: 10}
		r.Create.RequestsPerMachine, r.Roll.RequestsPerMachine = 9, 15
		r.Startup.Seconds, r.Memory = 5, memory{EmptyMiB: 60, FullMiB: 60 + float64(n)*.03, PerThousandMiB: 50}
		return r
	}
	cases := map[string]struct {
		reason string
		spoil  func(*record)
		want   string
	}{
		"None": {"all is within its bounds", func(*record) {}, ""},
		"Requests": {"a machine costs too many requests", func(r *record) {
			r.Create.RequestsPerMachine = 20
		}, "20.00 requests for a machine"},
		"Growth": {"requests a machine must not grow with the number of machines", func(r *record) {
			r.Roll.RequestsPerMachine = 17
		}, "grow from 15.00"},
		"Unrest": {"at rest nothing is asked for", func(r *record) { r.Steady.Requests = 1 }, "although nothing changed"},
		"Slow":   {"a start takes too long", func(r *record) { r.Startup.Seconds = 31 }, "31.0 s until"},
		"Large": {"memory grows faster than 60 MiB for 1 000 machines", func(r *record) {
			r.Memory.FullMiB = 700
		}, "64 MiB more"},
		"Peak": {"at its most it may not have more either", func(r *record) {
			r.Memory.PerThousandMiB = 61
		}, "61 MiB for"},
	}
	for name, c := range cases {
		r := good(10000)
		c.spoil(r)
		got := strings.Join(violations(r, good(100)), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s: got %q, want %q", name, c.reason, got, c.want)
		}
	}
}

// TestDocsShowWhatIsKept fails when somebody edits what the command writes, or
// keeps a record and does not show it.
func TestDocsShowWhatIsKept(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	all, err := records(root)
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(root, page))
	if want, err := fill(text, all); err != nil || want != text {
		t.Errorf("%s is not what is kept (%v): run `go run ./test/bench -docs`", page, err)
	}
	picture := read(t, filepath.Join(root, plot))
	if picture != draw(all) {
		t.Errorf("%s is not what is kept: run `go run ./test/bench -docs`", plot)
	}
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s is no XML: %v", plot, err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

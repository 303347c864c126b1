package outage_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "write the files that are compared")

// Recordings are what Prometheus would have scraped of the manager in this package's worlds. The
// rules are tested with them in test/monitoring, a module of its own.
const (
	recordings = "testdata/metrics"
	rulesFile  = "../../config/monitoring/prometheus_rule.yaml"

	// interval is that between two scrapes.
	interval = time.Minute
)

// metricName is any of ours.
var metricName = regexp.MustCompile(`\bmcm_[a-z_]+`)

// recording has the samples of all series by the text of the series.
type recording struct {
	*env
	wanted  map[string]bool // the metrics that are kept, as the rules name them
	exports exports
	samples map[string][]float64 // none is NaN
	scrapes int
	stale   float64 // what this counter of the whole test process had at the start
}

func recordingOf(t *testing.T, w *env) *recording {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{
		env: w, wanted: map[string]bool{}, exports: exports{}, samples: map[string][]float64{},
	}
	for _, name := range metricName.FindAllString(string(text), -1) {
		r.wanted[name] = true
	}
	r.restart()
	return r
}

// restart replaces the manager by another one.
func (r *recording) restart() {
	r.start()
	for _, f := range r.gather() {
		if f.GetName() == "mcm_machine_stale_machines_total" {
			r.stale = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
}

// pass lets time pass, and scrapes.
func (r *recording) pass(d time.Duration) {
	r.Helper()
	for range int(d / interval) {
		r.scrape()
		r.run(interval)
	}
}

func (r *recording) gather() []*dto.MetricFamily {
	r.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.Fatal(err)
	}
	return families
}

// scrape adds a sample to each series that is there.
func (r *recording) scrape() {
	r.Helper()
	families := r.gather()
	r.exports.add(families)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			r.keep(f.GetName(), m)
		}
	}
	r.scrapes++
}

// keep adds the samples of a metric.
func (r *recording) keep(name string, m *dto.Metric) {
	switch {
	case m.Gauge != nil:
		r.add(name, m, m.GetGauge().GetValue())
	case m.Counter != nil && name == "mcm_machine_stale_machines_total":
		r.add(name, m, m.GetCounter().GetValue()-r.stale)
	case m.Counter != nil:
		r.add(name, m, m.GetCounter().GetValue())
	case m.Histogram != nil:
		r.add(name+"_sum", m, m.GetHistogram().GetSampleSum())
		r.add(name+"_count", m, float64(m.GetHistogram().GetSampleCount()))
	}
}

// add adds a sample, with the labels that Prometheus adds.
func (r *recording) add(name string, m *dto.Metric, value float64) {
	if !r.wanted[name] {
		return
	}
	labels := map[string]string{
		"job": "manager", "pod": fmt.Sprintf("manager-%d", r.starts), "namespace": "machine-controller-manager",
	}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+strconv.Quote(labels[key]))
	}
	series := name + "{" + strings.Join(pairs, ",") + "}"
	r.samples[series] = append(padded(r.samples[series], r.scrapes), value)
}

// missing stands for a scrape without the series.
const missing = -1e300

func padded(samples []float64, length int) []float64 {
	for len(samples) < length {
		samples = append(samples, missing)
	}
	return samples
}

// text is the recording as Prometheus' tests write series, with runs of equal values.
func (r *recording) text() string {
	var text strings.Builder
	for _, series := range slices.Sorted(maps.Keys(r.samples)) {
		text.WriteString(series)
		samples := padded(r.samples[series], r.scrapes)
		for i := 0; i < len(samples); {
			n := 1
			for i+n < len(samples) && samples[i+n] == samples[i] {
				n++
			}
			text.WriteString(" " + runOf(samples[i], n))
			i += n
		}
		text.WriteString("\n")
	}
	return text.String()
}

// runOf is a value that is there n times.
func runOf(value float64, n int) string {
	switch {
	case value == missing:
		return fmt.Sprintf("_x%d", n)
	case n == 1:
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	return fmt.Sprintf("%sx%d", strconv.FormatFloat(value, 'g', -1, 64), n-1)
}

// compare compares the recording with the one that is kept, or keeps it.
func (r *recording) compare(name string) {
	r.Helper()
	file := filepath.Join(recordings, name+".series")
	if *update {
		if err := os.WriteFile(file, []byte(r.text()), 0o600); err != nil {
			r.Fatal(err)
		}
		return
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), r.text()); diff != "" {
		r.Errorf("%s is not what the manager shows now: look at the difference, then run go test ./test/outage -update; "+
			"test/monitoring judges it\n%s", file, diff)
	}
}

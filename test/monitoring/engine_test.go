package monitoring

import (
	"context"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
	"sigs.k8s.io/yaml"
)

const (
	config   = "../../config/monitoring"
	recorded = "../outage/testdata/metrics"

	// interval is that of scrapes and evaluations.
	interval = time.Minute
)

// prometheusRule is what the Prometheus Operator reads; its spec is a file of Prometheus' rules.
type prometheusRule struct {
	Spec struct {
		Groups []struct {
			Name  string           `json:"name"`
			Rules []map[string]any `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

func readRules(t *testing.T) prometheusRule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(config, "prometheus_rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule prometheusRule
	if err := yaml.Unmarshal(text, &rule); err != nil {
		t.Fatal(err)
	}
	return rule
}

// A firing is what the alerts of one name showed.
type firing struct {
	first  time.Duration   // since the beginning of the series
	texts  map[string]bool // of their annotations
	labels []labels.Labels
}

// play has Prometheus scrape series, each a line as its own tests write them, and evaluate the
// rules after each scrape. It returns the alerts that fired, by name.
func play(t *testing.T, lines []string) map[string]*firing {
	t.Helper()
	storage := teststorage.New(t)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute})
	t.Cleanup(func() { _ = engine.Close() })
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, storage), Context: t.Context(), AppendableV2: storage,
		Queryable: storage, ExternalURL: &url.URL{}, NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, ruleFile(t))
	for _, err := range errs {
		t.Fatal(err)
	}
	all, scrapes := parse(t, lines)
	fired := map[string]*firing{}
	for i := range scrapes {
		at := time.Duration(i) * interval
		scrape(t, storage, all, i)
		for _, group := range groups {
			group.Eval(t.Context(), time.Unix(0, 0).Add(at).UTC())
			for _, rule := range group.AlertingRules() {
				note(t, fired, rule, at)
			}
		}
	}
	return fired
}

// ruleFile writes the spec as a file of Prometheus.
func ruleFile(t *testing.T) string {
	t.Helper()
	text, err := yaml.Marshal(readRules(t).Spec)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A line is one series and its values, one for each scrape.
type line struct {
	series labels.Labels
	values []parser.SequenceValue
}

// parse returns the lines, and how many scrapes they have.
func parse(t *testing.T, lines []string) (all []line, scrapes int) {
	t.Helper()
	for _, text := range lines {
		series, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, line{series, values})
		scrapes = max(scrapes, len(values))
	}
	return all, scrapes
}

// scrape appends the samples of a scrape, and marks where a series ends, as Prometheus does.
func scrape(t *testing.T, storage *teststorage.TestStorage, all []line, i int) {
	t.Helper()
	appender := storage.Appender(t.Context())
	for _, l := range all {
		if i >= len(l.values) {
			continue
		}
		sample := l.values[i].Value
		if l.values[i].Omitted {
			if i == 0 || l.values[i-1].Omitted {
				continue
			}
			sample = math.Float64frombits(value.StaleNaN)
		}
		if _, err := appender.Append(0, l.series, (time.Duration(i) * interval).Milliseconds(), sample); err != nil {
			t.Fatalf("%s: %v", l.series, err)
		}
	}
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
}

// note adds what fires now.
func note(t *testing.T, fired map[string]*firing, rule *rules.AlertingRule, at time.Duration) {
	t.Helper()
	if err := rule.LastError(); err != nil {
		t.Fatalf("%s: %v", rule.Name(), err)
	}
	for _, alert := range rule.ActiveAlerts() {
		if alert.State != rules.StateFiring {
			continue
		}
		f := fired[rule.Name()]
		if f == nil {
			f = &firing{first: at, texts: map[string]bool{}}
			fired[rule.Name()] = f
		}
		f.labels = append(f.labels, alert.Labels)
		alert.Annotations.Range(func(l labels.Label) { f.texts[l.Value] = true })
	}
}

// recording returns the series that the manager showed in a fault.
func recording(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(recorded, name+".series"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

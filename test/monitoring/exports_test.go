package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// An export is a metric of the manager, as test/outage lists it.
type export struct {
	kind   string
	labels []string
}

func exports(t *testing.T) map[string]export {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(recorded, "exports.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]export{}
	for row := range strings.Lines(string(text)) {
		fields := strings.Fields(row)
		e := export{kind: fields[1]}
		if len(fields) > 2 {
			e.labels = strings.Split(fields[2], ",")
		}
		all[fields[0]] = e
	}
	return all
}

// target are the labels that Prometheus adds.
var target = []string{"job", "pod", "namespace", "instance", "container", "endpoint", "service"}

// check returns what is wrong with a metric of a name and labels; empty if nothing.
func check(all map[string]export, name string, used []string) string {
	base, part := name, ""
	if _, there := all[name]; !there {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut, found := strings.CutSuffix(name, suffix); found {
				base, part = cut, suffix
			}
		}
	}
	e, there := all[base]
	switch {
	case !there:
		return "the manager has no metric " + name
	case (part != "") != (e.kind == "histogram" || e.kind == "summary"), part == "_bucket" && e.kind != "histogram":
		return fmt.Sprintf("%s is no series of the %s %s", name, e.kind, base)
	}
	for _, l := range used {
		if l != model.MetricNameLabel && !slices.Contains(e.labels, l) && !slices.Contains(target, l) &&
			(l != labels.BucketLabel || part != "_bucket") {
			return fmt.Sprintf("%s has no label %s", name, l)
		}
	}
	return ""
}

// query returns what is wrong with a query.
func query(t *testing.T, text string) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	all := exports(t)
	var problems []string
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		var used []string
		for _, m := range selector.LabelMatchers {
			used = append(used, m.Name)
		}
		if problem := check(all, selector.Name, used); problem != "" {
			problems = append(problems, problem)
		}
		if problem := increase(all, selector.Name, path); problem != "" {
			problems = append(problems, problem)
		}
		return nil
	})
	return problems
}

// increase returns what is wrong with how a metric is used: only what counts increases.
func increase(all map[string]export, name string, path []parser.Node) string {
	for _, node := range path {
		call, ok := node.(*parser.Call)
		if ok && (call.Func.Name == "increase" || call.Func.Name == "rate") && all[name].kind == "gauge" {
			return fmt.Sprintf("%s of %s, a gauge", call.Func.Name, name)
		}
	}
	return ""
}

// TestRulesUseMetricsThatAreThere: names, labels and types are those of the manager.
func TestRulesUseMetricsThatAreThere(t *testing.T) {
	t.Parallel()
	for name, rule := range alerts(t) {
		expr, _ := rule["expr"].(string)
		for _, problem := range query(t, expr) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// TestSeriesAreThere: the series that are written here could be scraped.
func TestSeriesAreThere(t *testing.T) {
	t.Parallel()
	all := exports(t)
	for name, c := range clusterAPI() {
		for _, l := range append(c.series, leaders...) {
			lines, _ := parse(t, []string{l})
			var used []string
			lines[0].series.Range(func(l labels.Label) { used = append(used, l.Name) })
			if problem := check(all, lines[0].series.Get(model.MetricNameLabel), used); problem != "" {
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
}

// TestQueriesAreJudged: the checks of this file find what they are for.
func TestQueriesAreJudged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`sum(mcm_machine_items_total)`:                                      "",
		`mcm_machine_item_total`:                                            "no metric",
		`mcm_machine_info{nam="x"}`:                                         "no label nam",
		`rate(mcm_machine_step_duration_seconds[5m])`:                       "no series",
		`rate(mcm_machine_step_duration_seconds_bucket{le="1"}[5m])`:        "",
		`mcm_machine_items_total_bucket`:                                    "no series",
		`increase(mcm_machine_items_total[5m])`:                             "a gauge",
		`increase(mcm_machine_num_failed_join{machine_deployment="a"}[5m])`: "",
		`sum(`: "parse error",
	} {
		problems := strings.Join(query(t, text), "; ")
		if (want == "") != (problems == "") || !strings.Contains(problems, want) {
			t.Errorf("%s: %q, want %q", text, problems, want)
		}
	}
}

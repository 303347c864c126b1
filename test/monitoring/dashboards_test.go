package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboard is the part of Grafana's that has queries.
type dashboard struct {
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query string `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			Expr   string `json:"expr"`
			Legend string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
}

var (
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	dollar      = regexp.MustCompile(`\$(\w+)`)
)

// TestDashboards: every query can be parsed, uses metrics and labels that there are, and names
// variables that the dashboard has.
func TestDashboards(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(config, "dashboards", "*.json"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d dashboards (%v), want 4", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		checkQueries(t, d)
		checkVariables(t, d)
	}
}

func checkQueries(t *testing.T, d dashboard) {
	t.Helper()
	known := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		known[v.Name] = true
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, v := range dollar.FindAllStringSubmatch(target.Expr, -1) {
				if !known[v[1]] {
					t.Errorf("%s, %s: no variable %s", d.Title, p.Title, v[1])
				}
			}
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m") // Grafana fills it in
			if strings.HasPrefix(expr, "ALERTS{") {
				continue // Prometheus' own
			}
			for _, problem := range query(t, expr) {
				t.Errorf("%s, %s: %s", d.Title, p.Title, problem)
			}
		}
	}
}

// checkVariables: a variable has the values of a label that there is.
func checkVariables(t *testing.T, d dashboard) {
	t.Helper()
	for _, v := range d.Templating.List {
		if v.Type == "datasource" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Query)
		if parts == nil {
			t.Errorf("%s: the variable %s has the query %q", d.Title, v.Name, v.Query)
			continue
		}
		names := parts[1]
		if alternatives, found := strings.CutPrefix(names, `{__name__=~"`); found {
			names = strings.TrimSuffix(alternatives, `"}`)
		}
		for name := range strings.SplitSeq(names, "|") {
			name, _, _ = strings.Cut(name, "{")
			if problem := check(exports(t), name, []string{parts[2]}); problem != "" {
				t.Errorf("%s: variable %s: %s", d.Title, v.Name, problem)
			}
		}
	}
}

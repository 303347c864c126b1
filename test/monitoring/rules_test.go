package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const docs = "../../docs"

// alerts returns the rules by the name of their alert.
func alerts(t *testing.T) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, group := range readRules(t).Spec.Groups {
		for _, rule := range group.Rules {
			name, _ := rule["alert"].(string)
			if found[name] != nil {
				t.Errorf("two rules are named %q", name)
			}
			found[name] = rule
		}
	}
	return found
}

// TestRules: who is woken by an alert learns how bad it is, what it means, and what to do.
func TestRules(t *testing.T) {
	t.Parallel()
	const runbook = "https://github.com/capmcm/cluster-api-provider-mcm/blob/main/docs/troubleshooting.md#"
	all := alerts(t)
	if len(all) != 15 {
		t.Errorf("%d alerts, want 15", len(all))
	}
	overview, runbooks := page(t, "monitoring.md"), page(t, "troubleshooting.md")
	for name, rule := range all {
		labels, _ := rule["labels"].(map[string]any)
		annotations, _ := rule["annotations"].(map[string]any)
		severity, _ := labels["severity"].(string)
		if !regexp.MustCompile(`^(critical|warning|info)$`).MatchString(severity) {
			t.Errorf("%s has severity %q", name, severity)
		}
		for _, text := range []string{"summary", "description"} {
			if s, _ := annotations[text].(string); len(s) < 20 || strings.Contains(s, "\n") {
				t.Errorf("%s has %s %q", name, text, s)
			}
		}
		if annotations["runbook_url"] != runbook+strings.ToLower(name) {
			t.Errorf("%s has the runbook %v", name, annotations["runbook_url"])
		}
		checkRunbook(t, runbooks, name, severity)
		row := "[`" + name + "`](troubleshooting.md#" + strings.ToLower(name) + ") | " + severity + " |"
		if !strings.Contains(overview, row) {
			t.Errorf("docs/monitoring.md does not have %s with severity %s", name, severity)
		}
	}
	if sections := strings.Count(runbooks, "\n### "); sections != len(all) {
		t.Errorf("docs/troubleshooting.md has %d runbooks, want one for each of %d alerts", sections, len(all))
	}
}

// page returns the text of a page of docs.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkRunbook: a section has the parts that its reader looks for, in their order.
func checkRunbook(t *testing.T, runbooks, name, severity string) {
	t.Helper()
	_, section, _ := strings.Cut(runbooks, "\n### "+name+"\n")
	section, _, _ = strings.Cut(section, "\n### ")
	from := 0
	for _, part := range []string{"Severity: " + severity, "```sh\n", "**When to worry:**"} {
		i := strings.Index(section[from:], part)
		if i < 0 {
			t.Errorf("docs/troubleshooting.md, %s: no %q where it belongs", name, strings.TrimSpace(part))
			return
		}
		from += i
	}
}

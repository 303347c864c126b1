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
	const page = "https://github.com/capmcm/cluster-api-provider-mcm/blob/main/docs/runbooks/"
	all := alerts(t)
	if len(all) != 15 {
		t.Errorf("%d alerts, want 15", len(all))
	}
	overview, err := os.ReadFile(filepath.Join(docs, "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
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
		if annotations["runbook_url"] != page+name+".md" {
			t.Errorf("%s has the runbook %v", name, annotations["runbook_url"])
		}
		checkRunbook(t, name, severity)
		if !strings.Contains(string(overview), "[`"+name+"`](runbooks/"+name+".md) | "+severity+" |") {
			t.Errorf("docs/monitoring.md does not have %s with severity %s", name, severity)
		}
	}
	pages, err := filepath.Glob(filepath.Join(docs, "runbooks", "*.md"))
	if err != nil || len(pages) != len(all) {
		t.Errorf("%d runbooks (%v), want one for each of %d alerts", len(pages), err, len(all))
	}
}

// checkRunbook: a page has the parts that its reader looks for, in their order.
func checkRunbook(t *testing.T, name, severity string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, "runbooks", name+".md"))
	if err != nil {
		t.Error(err)
		return
	}
	page, from := string(text), 0
	for _, part := range []string{
		"# " + name + "\n", "Severity: " + severity, "## Symptom\n", "## Check\n", "```sh\n",
		"## Remedy\n", "## When to worry\n",
	} {
		i := strings.Index(page[from:], part)
		if i < 0 {
			t.Errorf("docs/runbooks/%s.md has no %q where it belongs", name, strings.TrimSpace(part))
			return
		}
		from += i
	}
}

package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNoMachinePaths finds paths of the machine that this runs on, and homes of
// people, in what is tracked.
func TestNoMachinePaths(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{here}
	if parent := filepath.Dir(here); parent != "/" {
		paths = append(paths, parent)
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" && home != "/root" { // every container has that one
		paths = append(paths, home)
	}
	alternatives := []string{`/home/[a-z][\w.-]*`, `/Users/\w+`}
	for _, p := range paths {
		alternatives = append(alternatives, regexp.QuoteMeta(p))
	}
	forbidden := regexp.MustCompile(`(?m)(^|[\s"'=(\x60:])(` + strings.Join(alternatives, "|") + `)/`)
	eachLine(t, forbidden, "a path of one machine")
}

// TestNoProxies: which module proxy a machine uses is its own business.
func TestNoProxies(t *testing.T) {
	t.Parallel()
	host := regexp.MustCompile(`^https?://([^/,|]+)`).FindStringSubmatch(os.Getenv("GOPROXY"))
	if host == nil {
		return
	}
	eachLine(t, regexp.MustCompile(regexp.QuoteMeta(host[1])), "the module proxy of one machine")
}

func TestNoSecrets(t *testing.T) {
	t.Parallel()
	eachLine(t, regexp.MustCompile(strings.Join([]string{
		`\b(AKIA|ASIA)[0-9A-Z]{16}\b`,
		`-{5}BEGIN [A-Z ]*PRIVATE KEY-{5}\\?n?\s*[A-Za-z0-9+/]{20}`,
		`\bgh[pousr]_[A-Za-z0-9]{36}\b`,
		`\bglpat-[A-Za-z0-9_-]{20}\b`,
		`\bxox[abprs]-[A-Za-z0-9-]{10,}`,
		`\beyJhbGciOi[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}\.`,
	}, "|")), "a secret")
}

// eachLine reports what a pattern matches in any tracked text.
func eachLine(t *testing.T, pattern *regexp.Regexp, what string) {
	t.Helper()
	for _, name := range files(t, everything) {
		text := read(t, name)
		if strings.HasSuffix(name, ".sum") || strings.ContainsRune(text, 0) {
			continue
		}
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %s", name, 1+strings.Count(text[:at[0]], "\n"), what)
		}
	}
}

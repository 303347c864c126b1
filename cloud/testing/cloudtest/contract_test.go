package cloudtest_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// TestContractAndCasesAgree keeps the document of the rules and the cases that
// try them together: each rule has a case, and each case a rule.
func TestContractAndCasesAgree(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/driver-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	ids, _ := cloudtest.Cases()
	var tried []string
	rules := regexp.MustCompile(`(?m)^\| \d+ \|.*\| ([^|]+) \|$`).FindAllStringSubmatch(string(text), -1)
	if len(rules) < len(ids) {
		t.Errorf("%d rules, want one for each of the %d cases at least", len(rules), len(ids))
	}
	for _, r := range rules {
		if tried = append(tried, r[1]); r[1] != "all cases" && !slices.Contains(ids, r[1]) {
			t.Errorf("a rule names the case %q, which does not exist: %s", r[1], r[0])
		}
	}
	for _, id := range ids {
		if !slices.Contains(tried, id) {
			t.Errorf("no rule in docs/driver-contract.md names %s", id)
		}
	}
}

package wrap_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

func TestParseRates(t *testing.T) {
	t.Parallel()
	got, err := wrap.ParseRates([]string{"AWS.create=10:50", "aws.get=0.5", "sim.list=3", "sim.tags=2:4"})
	want := map[string]cloud.Rates{
		"aws": {Create: cloud.Rate{PerSecond: 10, Burst: 50}, Get: cloud.Rate{PerSecond: .5, Burst: 1}},
		"sim": {List: cloud.Rate{PerSecond: 3, Burst: 3}, Tags: cloud.Rate{PerSecond: 2, Burst: 4}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v\n%s", err, diff)
	}
}

func TestParseRatesNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                 "does not begin with",
		"create=1":         "does not begin with",
		".create=1":        "does not begin with",
		"aws.boot=1":       `"aws.boot=1" does not begin with`,
		"aws.create":       `calls per second are ""`,
		"aws.create=0":     `calls per second are "0"`,
		"aws.create=-1":    `calls per second are "-1"`,
		"aws.create=Inf":   `calls per second are "Inf"`,
		"aws.create=NaN":   `calls per second are "NaN"`,
		"aws.create=1:0":   `calls at once are "0"`,
		"aws.create=1:":    `calls at once are ""`,
		"aws.create=1:2.5": `calls at once are "2.5"`,
	} {
		if _, err := wrap.ParseRates([]string{"aws.get=1", text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

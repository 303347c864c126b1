package cloudtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/cloudtest/parity"
)

// Parity compares a driver with that of Machine Controller Manager for the same cloud: what MCM's
// accepts is not blocked, and the requests for a VM are the same but for decisions.
type Parity struct {
	// File has a ParityCase a line.
	File string
	// Create parses a class and makes a VM of it. It returns the problems of the class, and the requests
	// in the form of the records, without the names, tokens and tags of the driver.
	Create func(t testing.TB, c ParityCase) (problems []cloud.Problem, requests map[string]any)
	// Decisions are where the driver differs on purpose. One that nothing needs any more is an error.
	Decisions []ParityDecision
}

// ParityCase is a class, and what MCM's driver made of it.
type ParityCase struct {
	Case  string          `json:"case"`
	Class json.RawMessage `json:"class"` // the provider spec
	Input json.RawMessage `json:"input"` // how the cloud and the user data differ from the usual; may be empty
	// MCM are the requests of MCM's driver; empty where it refuses the class.
	MCM map[string]any `json:"mcm"`
}

// Words of ParityDecision.Path for a class that only one of the two drivers accepts.
const (
	ParityOnlyMCM  = "only MCM accepts"
	ParityOnlyOurs = "only ours accepts"
)

// ParityDecision allows a difference.
type ParityDecision struct {
	Cases  string // expression for their names; empty is all
	Path   string // expression for the end of the path of what differs, such as scheduling\.preemptible
	Reason string // required
}

// Run compares all cases. It fails unless the page of the cloud shows how many are equal and how many differ.
func (p Parity) Run(t *testing.T) {
	t.Helper()
	var report parity.Report
	used := map[int]bool{}
	for _, c := range parity.Read[ParityCase](t, p.File) {
		var reasons []string
		found := p.compare(t, c)
		for _, d := range found {
			at := slices.IndexFunc(p.Decisions, func(o ParityDecision) bool { return o.allows(c.Case, d.path) })
			if at < 0 {
				t.Errorf("%s: %s: MCM has %s, the driver %s", c.Case, d.path, d.mcm, d.ours)
				continue
			}
			used[at], reasons = true, append(reasons, p.Decisions[at].Reason)
		}
		switch {
		case len(found) > 0:
			report.Decide(reasons...)
		case len(c.MCM) == 0:
			report.Refused++
		default:
			report.Equal++
		}
	}
	for i, d := range p.Decisions {
		if !used[i] || d.Reason == "" {
			t.Errorf("decision %+v: no case needs it, or it has no reason", d)
		}
	}
	if !t.Failed() {
		report.Shown(t)
	}
}

// difference is a value that differs; one that is missing is empty.
type difference struct{ path, mcm, ours string }

func (p Parity) compare(t testing.TB, c ParityCase) []difference {
	t.Helper()
	problems, requests := p.Create(t, c)
	err := cloud.Worst("parse", problems, cloud.BlocksCreate)
	switch {
	case err != nil && len(c.MCM) > 0:
		return []difference{{ParityOnlyMCM, "a request", err.Error()}}
	case err == nil && len(c.MCM) == 0:
		return []difference{{ParityOnlyOurs, "a refusal", "a request"}}
	case err != nil:
		return nil
	}
	text, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	var ours any
	_ = json.Unmarshal(text, &ours) // numbers as in the record
	return differences("", any(c.MCM), ours)
}

// differences are those of two values of JSON, in the order of their paths.
func differences(path string, mcm, ours any) (all []difference) {
	x, y := children(mcm), children(ours)
	if x == nil || y == nil || reflect.TypeOf(mcm) != reflect.TypeOf(ours) {
		if a, b := encoded(mcm), encoded(ours); a != b {
			return []difference{{path, a, b}}
		}
		return nil
	}
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		a, in := x[key]
		b, also := y[key]
		at := path + "." + key
		switch {
		case !in:
			all = append(all, difference{at, "nothing", encoded(b)})
		case !also:
			all = append(all, difference{at, encoded(a), "nothing"})
		default:
			all = append(all, differences(at, a, b)...)
		}
	}
	return all
}

// children are what a value consists of, by key or by index; nil for one that is no object or list.
func children(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case []any:
		all := map[string]any{}
		for i, one := range v {
			all[strconv.Itoa(i)] = one
		}
		return all
	}
	return nil
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func (d ParityDecision) allows(name, path string) bool {
	return regexp.MustCompile("^(?:"+cmp.Or(d.Cases, ".*")+")$").MatchString(name) &&
		regexp.MustCompile("(?:^|\\.)(?:"+d.Path+")$").MatchString(path)
}

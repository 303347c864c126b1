package cloudtest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// A testCase is one rule of the contract, or a few that need the same setup.
type testCase struct {
	id, name, reason string
	run              func(k *kit)
}

// Cases returns the ids of all cases, in order, with the reason of each.
func Cases() (ids []string, reasons map[string]string) {
	reasons = map[string]string{}
	for _, c := range cases() {
		ids = append(ids, c.id)
		reasons[c.id] = c.reason
	}
	return ids, reasons
}

// Run tries all cases on the driver of h as subtests C01_… to C31_…, logs the
// row of the matrix and returns it. With CLOUDTEST_MATRIX set to a file it also
// records the row there, if the cases tried all faults. A cloud that is tried in several ways has one row all
// the same: RunAll.
func Run(t *testing.T, h Harness) Row {
	t.Helper()
	row := run(t, h)
	row.publish(t, h.Unrecorded || h.Draws > 0)
	return *row
}

// RunAll tries all cases in several ways, which may be classes or connections,
// in parallel and as subtests of their names. When all have ended it logs and
// records the one row of their cloud: a case is kept if it is in every way, and
// what could not be tried in some ways only is a hole of those.
func RunAll(t *testing.T, ways map[string]Harness) {
	t.Helper()
	if len(ways) == 0 {
		t.Fatal("RunAll: there is no way to try the cases")
	}
	var mu sync.Mutex
	rows := map[string]Row{}
	t.Cleanup(func() {
		if len(rows) == len(ways) { // else -run left some out
			row := Merge(rows)
			row.publish(t, false)
		}
	})
	for name, h := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := run(t, h)
			mu.Lock()
			defer mu.Unlock()
			rows[name] = *row
		})
	}
}

func run(t *testing.T, h Harness) *Row {
	t.Helper()
	h = h.withDefaults()
	row := newRow()
	known := checkLacks(t, h)
	// Not t.Parallel: the row is whole when run returns, and how many cases run at
	// once does not depend on the processors of this machine.
	next := make(chan testCase)
	var workers sync.WaitGroup
	for range h.Concurrent {
		workers.Go(func() {
			for c := range next {
				t.Run(c.id+"_"+c.name, func(t *testing.T) { h.try(t, c, row) })
			}
		})
	}
	for _, c := range cases() {
		next <- c
	}
	close(next)
	workers.Wait()
	if h.Draws == 0 { // else a part may not have been drawn
		known.unused(t, row)
	}
	return row
}

// try runs one case and notes in row how it went.
func (h Harness) try(t *testing.T, c testCase, row *Row) {
	t.Helper()
	k := &kit{T: t, h: h, id: c.id, row: row}
	defer func() { row.finish(c.id, t.Failed()) }()
	row.start(c.id)
	if why := h.Lacks[c.id]; why != "" {
		row.hole(c.id, why)
		t.Skip(why)
	}
	k.renew()
	row.cloud(k.traits.Name)
	c.run(k)
	if t.Failed() {
		t.Logf("%s is tried because: %s", c.id, c.reason)
	}
}

// withDefaults fills in what h leaves open.
func (h Harness) withDefaults() Harness {
	if h.Concurrent == 0 {
		h.Concurrent = 1
	}
	if h.Parallel == 0 {
		h.Parallel = 200
	}
	if h.Prompt == 0 {
		h.Prompt = 10 * time.Second
	}
	if h.Patience == 0 {
		h.Patience = time.Minute
	}
	return h
}

// lacks are the holes that a Harness names.
type lacks map[string]string

// checkLacks fails t for a hole in a case that does not exist or without a
// reason.
func checkLacks(t *testing.T, h Harness) lacks {
	t.Helper()
	ids, _ := Cases()
	for key, why := range h.Lacks {
		id, _, _ := strings.Cut(key, "/")
		if !slices.Contains(ids, id) || why == "" {
			t.Errorf("Lacks[%q] = %q: want one of %s to %s, and a reason", key, why, ids[0], ids[len(ids)-1])
		}
	}
	return lacks(h.Lacks)
}

// unused fails t for parts that are named as holes and do not exist: they would
// hide a part of that name later.
func (l lacks) unused(t *testing.T, row *Row) {
	t.Helper()
	for key := range l {
		id, _, isPart := strings.Cut(key, "/")
		cell := row.Cells[id]
		if isPart && cell.Ran && !cell.Failed && cell.Holes[key] == "" {
			t.Errorf("Lacks[%q]: there is no such part", key)
		}
	}
}

// kit is one case, or one part of one, at work.
type kit struct {
	*testing.T
	h   Harness
	id  string // of the case
	row *Row

	f       *Fixture
	traits  cloud.Traits
	proxy   *Proxy
	class   cloud.Class
	counter *int // of machines
}

// part runs f as a subtest on the same cloud, unless the harness lacks it.
func (k *kit) part(name string, f func(k *kit)) {
	k.Helper()
	k.Run(name, func(t *testing.T) {
		sub := *k
		sub.T = t
		key := k.path(t)
		if why := k.h.Lacks[key]; why != "" {
			k.row.hole(key, why)
			t.Skip(why)
		}
		f(&sub)
	})
}

// path is the case and part that t runs, as a key of Lacks.
func (k *kit) path(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(t.Name(), "/"+k.id+"_")
	_, part, _ := strings.Cut(rest, "/")
	return k.id + "/" + part
}

// renew lets k go on with a cloud of its own.
func (k *kit) renew() {
	k.Helper()
	k.f = k.h.New(k.T)
	if k.f == nil || k.f.Driver == nil || k.f.Backend.Proxy == nil || k.f.Backend.Ledger == nil {
		k.Fatal("Harness.New: Driver, Backend.Proxy and Backend.Ledger have to be there")
	}
	d := k.f.Driver()
	k.traits, k.proxy, k.counter = d.Traits(), k.f.Backend.Proxy, new(int)
	k.class = k.parse(d, k.f.Class)
}

// needs fails the case when a hook is missing without a reason in Lacks.
func (k *kit) needs(there bool, hook string) {
	k.Helper()
	if !there {
		key := k.id
		if part := k.path(k.T); part != k.id+"/" {
			key = part
		}
		k.Fatalf("%s is missing: supply it, or say why not in Lacks[%q]", hook, key)
	}
}

// parse returns the class of in, which must be good enough for every call.
func (k *kit) parse(d cloud.Driver, in cloud.ClassInput) cloud.Class {
	k.Helper()
	given := copyInput(in)
	c, problems := d.Parse(given)
	if !sameInput(given, in) {
		k.Errorf("Parse changes its argument")
	}
	clear(given.Spec)
	clear(given.Labels)
	clear(given.Annotations)
	for _, p := range problems {
		if p.Severity > cloud.Warning {
			k.Errorf("class of the fixture: %v", p)
		}
	}
	return c
}

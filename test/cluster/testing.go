package cluster

import (
	"context"
	"flag"
	"os"
)

// TB is what these helpers need of a *testing.T or *testing.B. Being an
// interface it keeps package testing out of programs that start a cluster.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Failed() bool
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Require ends a test that needs a control plane: with go test -short as a skip;
// where none is built as a failure if CI is true, otherwise as a skip that says
// what to do.
func Require(t TB) {
	t.Helper()
	if short := flag.Lookup("test.short"); short != nil && short.Value.String() == "true" {
		t.Skipf("a control plane takes seconds to start: not with -short")
	}
	_, err := Find()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("no control plane: %v", err)
	default:
		t.Skipf("no control plane: %v", err)
	}
}

// ForTest starts a cluster that ends with the test. The ends of its logs are
// printed if the test fails.
func ForTest(t TB, o Options) *Cluster {
	t.Helper()
	Require(t)
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", c.logTails())
		}
		if err := c.Stop(); err != nil {
			t.Logf("stop the cluster: %v", err)
		}
	})
	return c
}

// Package integration runs the whole manager against a real API server and the
// simulated cloud, each as a process of its own.
package integration

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// binaries is the folder with manager and simcloud, built once for all tests.
var binaries string

func TestMain(m *testing.M) {
	if _, err := cluster.Find(); err == nil {
		if binaries, err = stack.Build(context.Background()); err != nil {
			println(err.Error())
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// timeout is how long something may take that takes seconds: two cores are
// shared by many processes.
const timeout = 2 * time.Minute

// suite is a stack with what tests need to wait for it.
type suite struct {
	*stack.Stack
	*testing.T
	Gomega
	manager *stack.Manager
}

// start returns a stack with one manager that has the given flags. It ends with
// the test; its logs are shown if the test fails.
func start(t *testing.T, o stack.Options, flags ...string) *suite {
	t.Helper()
	s := startWithout(t, o)
	var err error
	s.manager, err = s.StartManager(flags...)
	s.Expect(err).NotTo(HaveOccurred())
	return s
}

// startWithout returns a stack without a manager.
func startWithout(t *testing.T, o stack.Options) *suite {
	t.Helper()
	cluster.Require(t)
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(timeout)
	g.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	o.Binaries = binaries
	if o.Controllers == nil {
		o.Controllers = cluster.Controllers()
	}
	if o.Cloud == nil {
		o.Cloud = []string{"--latency=20ms", "--boot-time=500ms", "--delete-time=200ms"}
	}
	st, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(st.Logs())
		}
		if err := st.Stop(); err != nil {
			t.Log(err)
		}
	})
	return &suite{Stack: st, T: t, Gomega: g}
}

// eventually waits until check returns nil.
func (s *suite) eventually(what string, check func(context.Context) error) {
	s.Helper()
	if err := stack.Until(s.Context(), timeout, check); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

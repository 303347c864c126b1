package sim_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// TestReplay lets a cloud go on from the lines of another one.
func TestReplay(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	now := newClock()
	settings := sim.DefaultSettings()
	settings.BootTime, settings.DeleteTime = sim.Duration(time.Minute), sim.Duration(time.Minute)
	first := &env{T: t, clock: now, who: sim.Login{Account: "demo", Secret: "demo-secret"}}
	first.Cloud = sim.New(sim.Options{Clock: now, Seed: 7, Settings: settings, OnRecord: func(line []byte) {
		lines.Write(line)
	}})
	first.SetCapacity("sim-1a", "small", 3)
	in := input("a")
	in.ClientToken, in.UserData = "t", []byte("boot")
	stays, goes, gone := first.make(in), first.make(input("b")), first.make(input("c"))
	_, _ = first.DeleteVM(first.who, "sim-1", gone.ID)
	now.Advance(time.Minute)
	_, _ = first.DeleteVM(first.who, "sim-1", goes.ID)
	lines.WriteString(`{"resource":{"kind":"vm"`) // cut off by a crash

	for _, text := range []string{lines.String(), string(first.Lines())} {
		second := &env{T: t, clock: now, who: first.who}
		second.Cloud = sim.New(sim.Options{Clock: now, Seed: 99, Settings: sim.DefaultSettings()})
		if err := second.Replay(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.Ledger(), second.Ledger(), cmp.AllowUnexported(sim.Resource{})); diff != "" {
			t.Errorf("ledger (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(first.Settings(), second.Settings()); diff != "" {
			t.Errorf("settings (-first +second):\n%s", diff)
		}
		if vm := second.make(in); vm.ID != stays.ID {
			t.Errorf("the token makes %s after a restart, want %s", vm.ID, stays.ID)
		}
		if _, data, _ := second.Look(stays.ID); string(data) != "boot" {
			t.Errorf("user data is %q", data)
		}
		fresh := second.make(input("d"))
		if slices.ContainsFunc(first.Ledger(), func(r sim.Resource) bool { return r.ID == fresh.ID }) {
			t.Errorf("the id %s is given out twice", fresh.ID)
		}
		if _, err := second.CreateVM(second.who, "sim-1", input("e")); codeOf(err) != sim.CodeInsufficientCapacity {
			t.Errorf("a fourth VM where three fit in, one of them going: %v", err)
		}
	}
}

// TestServerGone calls a cloud whose process is away.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := newEnv(t, nil)
	server := httptest.NewServer(sim.Handler(s.Cloud, nil))
	d := sim.NewDriver(server.Client().Transport)
	c, _ := d.Parse(class("x", spec{"endpoint": server.URL}))
	account, err := d.Open(t.Context(), c, credentials())
	if err != nil {
		t.Fatal(err)
	}
	r := cloud.CreateRequest{Ref: cloud.Ref{Name: "a", OwnerID: "o", Class: c}, Token: "t"}
	s.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultLost, Count: 1})
	if _, err := account.Create(t.Context(), r); cloud.CodeOf(err) != cloud.Unavailable {
		t.Errorf("a lost answer: got %v, want Unavailable", err)
	}
	if _, err := account.Create(t.Context(), r); err != nil || len(s.VMs()) != 1 {
		t.Errorf("create after a lost answer: %v, %d VMs, want one", err, len(s.VMs()))
	}
	s.AddFault(sim.Fault{Op: sim.OpList, Mode: sim.FaultHang, Count: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := account.Delete(ctx, r.Ref); cloud.CodeOf(err) != cloud.Unavailable ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an answer that does not arrive in time: got %v, want Unavailable and the context's error", err)
	}
	server.Close()
	for op, call := range map[string]func() error{
		"create":   func() error { _, err := account.Create(t.Context(), r); return err },
		"get":      func() error { _, err := account.Get(t.Context(), r.Ref); return err },
		"delete":   func() error { _, err := account.Delete(t.Context(), r.Ref); return err },
		"capacity": func() error { _, err := account.Capacity(t.Context(), c); return err },
		"list": func() (err error) {
			for _, err = range account.List(t.Context(), c) {
			}
			return err
		},
	} {
		if err := call(); cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("%s while the cloud is away: got %v, want Unavailable", op, err)
		}
	}
}

// TestLatency sees the delay of a call before and after its effect.
func TestLatency(t *testing.T) {
	t.Parallel()
	s := newEnv(t, func(o *sim.Settings) {
		o.Latency = map[string]sim.Duration{"*": sim.Duration(2 * time.Second), sim.OpList: sim.Duration(8 * time.Second)}
	})
	var slept []time.Duration
	h := sim.Handler(s.Cloud, func(_ context.Context, d time.Duration) { slept = append(slept, d) })
	for _, path := range []string{
		"/v1/regions/sim-1/vms/vm-1", "/v1/regions/sim-1/resources", "/admin/settings",
		"/healthz",
	} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	}
	want := []time.Duration{time.Second, time.Second, 4 * time.Second, 4 * time.Second}
	if !slices.Equal(slept, want) {
		t.Errorf("slept %v, want %v: only the accounts' calls, by operation", slept, want)
	}
}

package vm

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestEachLineOnce: however often the cloud is asked, the log has each step of a VM's life
// once, and nothing of its boot data.
func TestEachLineOnce(t *testing.T) {
	t.Parallel()
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	clock := testingclock.NewFakePassiveClock(start)
	e := New(clock, noFormerLeader, nil)
	pending := cloud.VM{RetryAfter: time.Second}
	made := cloud.VM{ProviderID: "sim:///1", State: cloud.StateRunning, RetryAfter: time.Second}
	var deletion cloud.Deletion
	a := &account{
		create: func(cloud.CreateRequest) (cloud.VM, error) { return pending, nil },
		del:    func(cloud.Ref) (cloud.Deletion, error) { return deletion, nil },
	}
	w := wanted(func(context.Context, int) error { return nil })
	w.Request.UserData = []byte("canary")
	ensure := func() {
		for range 2 {
			if _, err := e.ensure(ctx, a, traits, w); err != nil {
				t.Fatal(err)
			}
		}
	}
	ensure()
	pending = made
	ensure()
	w.Request.ProviderID = made.ProviderID
	ensure()
	clock.SetTime(start.Add(time.Hour))
	remove := func() {
		for range 2 {
			if _, err := e.remove(ctx, a, traits, w.Request.Ref); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove()
	deletion.Done = true
	remove()
	want := []string{
		`"msg"="Creating VM" "machine"="m" "ownerID"="owner" "attempt"=1`,
		`"msg"="Created VM" "machine"="m" "ownerID"="owner" "providerID"="sim:///1" "attempt"=1 "state"="running"`,
		`"msg"="Deleting VM" "machine"="m" "ownerID"="owner" "providerID"="sim:///1"`,
		`"msg"="Deleted VM" "machine"="m" "ownerID"="owner" "providerID"="sim:///1"`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(lines), len(want), lines)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) || strings.Contains(line, "canary") {
			t.Errorf("line %d is %s, want %s", i, line, want[i])
		}
	}
}

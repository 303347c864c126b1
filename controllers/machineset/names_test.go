package machineset

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// TestNamesThatTheCloudDoesNotTake: Machines whose VMs can never be named would be created and given up for
// ever; the set says so before the first one.
func TestNamesThatTheCloudDoesNotTake(t *testing.T) {
	t.Parallel()
	env := newEnv(t, newSet(2))
	limits := cloud.NameLimits{Max: 63, Chars: "a-z0-9", First: "a-z"}
	env.c.Resolve = func(context.Context, client.Reader, string, string) (class.Resolved, error) {
		return class.Resolved{Driver: named{limits: limits}}, nil
	}
	_, err := env.reconcile()
	if err == nil || !strings.Contains(err.Error(), `has "-" and may only have a-z0-9`) || len(env.machines()) > 0 {
		t.Fatalf("error %v and %d Machines, want the character that is wrong and none", err, len(env.machines()))
	}
	if told, _ := env.told(machinev1.EventFailedCreate); len(told) != 1 {
		t.Errorf("Events %q, want one", told)
	}
	limits.Chars = "a-z0-9-"
	env.settle()
	if n := len(env.machines()); n != 2 {
		t.Errorf("%d Machines under names that the cloud takes, want 2", n)
	}
}

// named is a driver of which only the names that it takes matter.
type named struct {
	cloud.Driver
	limits cloud.NameLimits
}

func (n named) Traits() cloud.Traits { return cloud.Traits{Name: "named", Names: n.limits} }

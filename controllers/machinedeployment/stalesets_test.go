package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// formerSets is a cache that shows the sets as they were; nil: as they are.
type formerSets struct {
	client.Client
	sets   []machinev1.MachineSet
	answer answer
}

// answer is what becomes of writes.
type answer string

const (
	answered answer = "Answered"
	silent   answer = "NoAnswer" // they take effect all the same
	pending  answer = "Pending"  // they have not arrived yet
)

func (c *formerSets) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.write(func() error { return c.Client.Patch(ctx, o, p, opts...) })
}

func (c *formerSets) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.write(func() error { return c.Client.Create(ctx, o, opts...) })
}

func (c *formerSets) write(do func() error) error {
	if c.answer == pending {
		return errReset
	}
	if err := do(); err != nil || c.answer == answered {
		return err
	}
	return errReset
}

var errReset = errors.New("connection reset by peer")

func (c *formerSets) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	into, ok := list.(*machinev1.MachineSetList)
	if !ok || c.sets == nil || err != nil {
		return err
	}
	former := map[string]machinev1.MachineSet{}
	for _, set := range c.sets {
		former[set.Name] = set
	}
	shown := into.Items[:0]
	for _, set := range into.Items {
		if set, ok := former[set.Name]; ok {
			shown = append(shown, set)
		}
	}
	into.Items = shown
	return nil
}

func (c *formerSets) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	set, ok := o.(*machinev1.MachineSet)
	if !ok || c.sets == nil {
		return c.Client.Get(ctx, key, o, opts...)
	}
	for _, former := range c.sets {
		if former.Name == key.Name {
			former.DeepCopyInto(set)
			return nil
		}
	}
	return apierrors.NewNotFound(machinev1.GroupVersion.WithResource("machinesets").GroupResource(), key.Name)
}

// TestRollbackOnStaleSets: the template is rolled back right after a set got its first machine, before the cache shows
// that. The former set, which is the current one again, would get a machine in its place, and its optimistic lock
// knows of no other set.
func TestRollbackOnStaleSets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		surge  int32
		moment func(*env) bool // when the cache stops to show sets
	}{
		"Resized": {"The new set is shown without its machine.", 0, func(env *env) bool {
			return env.set("v1").Spec.Replicas == 1 && env.set("v1").Status.Replicas == 1
		}},
		"Created": {"The third set is not shown at all.", 1, func(env *env) bool {
			if len(env.sets()) < 2 || env.set("v1").Status.Replicas != 1 || env.asked() != 2 {
				return false
			}
			env.changeSpec(class("v3"))
			return true
		}},
	} {
		for _, answer := range []answer{answered, silent, pending} {
			t.Run(fmt.Sprintf("%s/%s", name, answer), func(t *testing.T) {
				t.Parallel()
				rollBackOnStaleSets(t, answer, tc.surge, tc.moment, tc.reason)
			})
		}
	}
}

// rollBackOnStaleSets rolls back right after the write that follows the moment.
func rollBackOnStaleSets(t *testing.T, answer answer, surge int32, moment func(*env) bool, reason string) {
	t.Helper()
	env := newEnv(t, deployment(2, func(d *machinev1.MachineDeployment) {
		d.Spec.Strategy = rollingUpdate(surge, 1-surge)
	}))
	cache := &formerSets{Client: env.Client, answer: answered}
	deps := env.c.Deps
	deps.Client = cache
	env.c = New(deps)
	env.run()
	env.changeSpec(class("v2"))
	for !moment(env) {
		env.pass()
		env.playSets()
		env.playMachines()
	}
	cache.sets, cache.answer = env.sets(), answer
	if _, err := env.try(); (err != nil) != (answer != answered) {
		t.Fatal(err)
	}
	cache.answer = answered
	env.changeSpec(class("v1"))
	asked := env.asked()
	if wait := env.pass().RequeueAfter; wait <= 0 {
		t.Error("nothing wakes it when the cache shows the sets")
	}
	if env.asked() > asked {
		t.Errorf("%s: %d machines are asked for, %d before\n%s", reason, env.asked(), asked, env.describe())
	}
	if said := strings.Contains(env.waitsFor(), "did not answer the last request"); said != (answer == pending) {
		t.Errorf("the status says %q", env.waitsFor())
	}
	cache.sets = nil
	env.Clock.SetTime(env.Clock.Now().Add(fence.Reach))
	env.run()
}

// TestMachineOfAStaleSet: what happens to a machine is not missed because the cache does not show yet what was written
// to its set.
func TestMachineOfAStaleSet(t *testing.T) {
	t.Parallel()
	env := newEnv(t, deployment(1))
	env.run()
	newer := env.set("v1")
	newer.ResourceVersion += "0"
	env.c.ownSets.Saw(newer)
	machine := env.machines()[0]
	if got := env.c.deploymentsOfMachine(t.Context(), &machine); len(got) != 1 || got[0] != pool {
		t.Errorf("the deployments of the machine are %v, want %v", got, pool)
	}
}

package vm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// life is a process that dies before its n-th effect from now; negative: it does not.
type life struct{ left int }

var errDied = errors.New("the process died")

func (l *life) effect() error {
	if l.left == 0 {
		return errDied
	}
	l.left--
	return nil
}

// mortal is an account of such a process: it dies before a call, or before its answer.
type mortal struct {
	cloud.Account
	life *life
	err  error // of the cloud; nil: it does what is asked for
}

func (a mortal) both(call func() (cloud.Registration, error)) (cloud.Registration, error) {
	if err := a.life.effect(); err != nil {
		return cloud.Registration{}, err
	}
	if a.err != nil {
		return cloud.Registration{}, a.err
	}
	r, err := call()
	if died := a.life.effect(); died != nil {
		return cloud.Registration{}, died
	}
	return r, err
}

func (a mortal) Register(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	return a.both(func() (cloud.Registration, error) { return cloud.Register(ctx, a.Account, r, places) })
}

func (a mortal) Deregister(ctx context.Context, r cloud.Ref, places []string) (cloud.Registration, error) {
	return a.both(func() (cloud.Registration, error) { return cloud.Deregister(ctx, a.Account, r, places) })
}

// balanced gives the object a class with these load balancers.
func (env *lifeEnv) balanced(balancers ...string) {
	env.Helper()
	var list []string
	for _, id := range balancers {
		list = append(list, fmt.Sprintf(`{"id":%q,"port":6443}`, id))
	}
	env.useClass(func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = []byte(strings.Replace(string(c.ProviderSpec.Raw), `{`,
			`{"loadBalancers":[`+strings.Join(list, ",")+`],`, 1))
	})
}

// memberships are where the only VM gets new requests.
func (env *lifeEnv) memberships() string {
	env.Helper()
	var found []string
	for _, vm := range env.cloud.VMs() {
		for _, m := range vm.VM.Memberships {
			if m.Draining.IsZero() {
				found = append(found, m.LoadBalancer)
			}
		}
	}
	return strings.Join(found, " ")
}

// memberOwner returns the object, whose process dies before its n-th effect.
func (env *lifeEnv) memberOwner(dies int, err error) *object {
	o := env.object
	o.life = &life{dies}
	env.wrap(func(a cloud.Account) cloud.Account { return mortal{a, o.life, err} })
	return o
}

const forever = -1

// join calls Join until it is done or the process dies.
func (env *lifeEnv) join(o *object) error {
	env.Helper()
	for range 10 {
		j, err := env.engine.Join(env.Context(), o.machine(), time.Time{})
		if err != nil || j.Done || j.None {
			return err
		}
		env.Advance(j.RetryAfter)
	}
	return errors.New("not registered after ten passes")
}

// depart takes the VM out of its load balancers and deletes it.
func (env *lifeEnv) depart(o *object) error {
	env.Helper()
	for range 30 {
		gone, err := env.engine.deregister(env.Context(), o.machine())
		if err != nil {
			return err
		}
		if gone.Done {
			_, err := env.engine.Remove(env.Context(), o.machine())
			return err
		}
		env.Advance(gone.RetryAfter)
	}
	return errors.New("still there after thirty passes")
}

// TestMembersSurviveCrashes kills the process before and after each effect, on a life in which the
// class changes its load balancer. The next process goes on, or finds that the class has changed, or
// that the machine is to be deleted: in the end the VM is a member where the class says, and
// nowhere when its deletion is asked for.
func TestMembersSurviveCrashes(t *testing.T) {
	t.Parallel()
	const effects = 20 // more than there are
	for dies := range effects {
		for name, goesOn := range map[string]bool{"GoesOn": true, "Changed": false} {
			t.Run(fmt.Sprint(name, dies), func(t *testing.T) {
				t.Parallel()
				liveWithCrash(t, dies, goesOn)
			})
		}
	}
}

func liveWithCrash(t *testing.T, dies int, goesOn bool) {
	t.Helper()
	env := newLifeEnv(t)
	env.cloud.Change(func(s *sim.Settings) { s.LoadBalancers[0].DrainTime = sim.Duration(3 * time.Second) })
	env.balanced("apiserver")
	env.create()
	o := env.memberOwner(dies, nil)
	step := func(what string, do func(*object) error, again bool) (died bool) {
		t.Helper()
		err := do(o)
		if died = errors.Is(err, errDied); died { // the next process reads what was recorded
			env.engine, o.life.left = New(env.Clock, noFormerLeader, nil), forever
			if err = nil; again {
				err = do(o)
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return died
	}
	if died := step("join", env.join, goesOn); (!died || goesOn) && env.memberships() != "apiserver" {
		t.Errorf("the VM is a member of %q, want apiserver", env.memberships())
	}
	env.balanced("ingress")
	env.wrap(func(a cloud.Account) cloud.Account { return mortal{a, o.life, nil} })
	if died := step("follow the class", env.join, goesOn); (!died || goesOn) && env.memberships() != "ingress" {
		t.Errorf("the VM is a member of %q, want ingress, which the class has now", env.memberships())
	}
	step("depart", env.depart, true)
	for _, r := range env.cloud.Ledger() {
		if r.VM != nil && r.VM.DeletedRegistered {
			t.Error("the deletion of the VM was asked for while it got requests")
		}
	}
}

// TestRegisteredIsSilent: a VM that is registered costs no call, also for the next process; one
// whose class names nothing has no record.
func TestRegisteredIsSilent(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.balanced("apiserver")
	env.create()
	o := env.memberOwner(forever, nil)
	env.Must(env.join(o))
	calls := env.cloud.Calls("*")
	env.engine = New(env.Clock, noFormerLeader, nil)
	j, err := env.engine.Join(t.Context(), o.machine(), time.Time{})
	if err != nil || !j.Done || env.cloud.Calls("*") != calls {
		t.Errorf("got %+v, %v, %d calls, want that it is registered without a call", j, err, env.cloud.Calls("*")-calls)
	}
	env.balanced()
	env.Must(env.join(o))
	if j, err := env.engine.Join(t.Context(), o.machine(), time.Time{}); err != nil || !j.None || o.members != "" ||
		env.memberships() != "" {
		t.Errorf("without load balancers: got %+v, %v, the record %q, a member of %q", j, err, o.members, env.memberships())
	}
}

// TestJoinReportsFailures: what keeps a VM out of its load balancers is shown, and tried again.
func TestJoinReportsFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   string // reason of the condition
	}{
		"Denied":  {"The account may not.", cloud.Errorf(cloud.Denied, "r", "No", "no"), machinev1.ReasonCredentialsRefused},
		"Invalid": {"There is none.", cloud.Errorf(cloud.Invalid, "r", "No", "no"), machinev1.ReasonInvalidSpec},
		"NotShown": {
			"The cloud may show the VM later.", cloud.Errorf(cloud.NotFound, "r", "No", "no"),
			machinev1.ReasonRegistering,
		},
		"RateLimit": {"A turn is no failure.", cloud.Errorf(cloud.Throttled, "r", cloud.ReasonRateBudget, "no"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			env.balanced("apiserver")
			env.create()
			o := env.memberOwner(forever, tc.err)
			j, err := env.engine.Join(t.Context(), o.machine(), time.Time{})
			if err != nil || j.Reason != tc.want || j.Done || j.RetryAfter <= 0 {
				t.Errorf("%s\ngot %+v, %v, want the reason %q and another try", tc.reason, j, err, tc.want)
			}
		})
	}
}

// TestUnreadableClassShowsNothing: a class that cannot be read is reported by whoever needs it, and
// must not end the pass: the machine's health is judged after its load balancers.
func TestUnreadableClassShowsNothing(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.balanced("apiserver")
	env.create()
	o := env.memberOwner(forever, nil)
	env.object.classErr = errRefused
	if j, err := env.engine.Join(t.Context(), o.machine(), time.Time{}); err != nil || j != (Upkeep{}) {
		t.Errorf("got %+v, %v, want nothing", j, err)
	}
}

// TestDeregistrationIsBounded: a cloud that refuses holds a deletion up for the timeout, on
// record, and no longer; by force not at all.
func TestDeregistrationIsBounded(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.balanced("apiserver")
	env.create()
	o := env.memberOwner(forever, nil)
	env.Must(env.join(o))
	env.balanced("apiserver")
	denied := cloud.Errorf(cloud.Denied, "deregister", "No", "no")
	env.wrap(func(a cloud.Account) cloud.Account { return mortal{a, o.life, denied} })
	began := env.Clock.Now()
	for {
		gone, err := env.engine.deregister(t.Context(), o.machine())
		env.Must(err)
		waited := env.Clock.Now().Sub(began)
		if gone.Done {
			if waited < DeregistrationTimeout || waited > DeregistrationTimeout+time.Second ||
				!strings.Contains(o.told, "apiserver/6443") {
				t.Errorf("done after %v: %q, want after %v, and where the member may be", waited, o.told,
					DeregistrationTimeout)
			}
			break
		}
		if gone.Reason != machinev1.ReasonCredentialsRefused || waited > DeregistrationTimeout {
			t.Fatalf("after %v: %+v", waited, gone)
		}
		env.Advance(gone.RetryAfter)
		env.engine = New(env.Clock, noFormerLeader, nil) // a new leader does not begin again
	}
	env.engine = New(env.Clock, noFormerLeader, nil)
	o.members = memberRecord{Places: []string{"apiserver/6443"}, Registered: true}.String()
	o.hurried, o.told = true, ""
	if gone, err := env.engine.deregister(t.Context(), o.machine()); err != nil || !gone.Done || o.told == "" {
		t.Errorf("by force: got %+v, %v, %q, want that it is done, and a warning", gone, err, o.told)
	}
}

// TestDeregistrationAwaitsFormerLeader: a registration that is not known to be complete may still
// be on its way.
func TestDeregistrationAwaitsFormerLeader(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	env.balanced("apiserver")
	env.create()
	env.engine = New(env.Clock, fence.Always(env.Clock).FormerLeader, nil)
	o := env.memberOwner(forever, nil)
	o.members = memberRecord{Places: []string{"apiserver/6443"}}.String()
	gone, err := env.engine.deregister(t.Context(), o.machine())
	if err != nil || gone.Done || gone.RetryAfter != time.Minute {
		t.Errorf("got %+v, %v, want to wait for the former leader's reach", gone, err)
	}
	env.Advance(time.Minute)
	if gone, err := env.engine.deregister(t.Context(), o.machine()); err != nil || !gone.Done {
		t.Errorf("after that: got %+v, %v", gone, err)
	}
}

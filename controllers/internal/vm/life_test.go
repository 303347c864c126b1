package vm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var errRefused = errors.New("refused")

// object is an Owner in memory; what it is asked for, and what it records, is in steps.
type object struct {
	class    class.Resolved
	others   []class.Resolved
	classErr error
	ref      cloud.Ref
	attempt  int
	foreign  bool  // the attempt is not one of the engine
	spent    bool  // there is no boot data any more
	dataErr  error // of UserData
	refuses  string
	steps    []string

	tags     map[string]string
	lost     bool   // the owner id may stand in for one that was lost
	claimant string // of any other owner id
	cluster  string // that the VM has to be of

	wish, zone string         // asked for, and recorded
	use        map[string]int // of the zones, by other machines
	useErr     error
	counted    int // how often use was asked for

	noted  string   // scope that the next write takes along
	scopes []string // of other machines
}

func (o *object) HasOwnerID() bool         { return !o.lost || o.ref.ProviderID != "" }
func (o *object) MayHaveLostOwnerID() bool { return o.lost }
func (o *object) ClusterID() string        { return o.cluster }

func (o *object) Claimant(context.Context, string, ...string) (string, error) { return o.claimant, nil }

func (o *object) RecordOwnerID(_ context.Context, id string) error {
	o.ref.OwnerID, o.lost = id, false
	return o.record("owner id " + id)
}

func (o *object) Class() (class.Resolved, error) { return o.class, o.classErr }
func (o *object) Ref() cloud.Ref                 { return o.ref }
func (o *object) Attempt() (int, bool)           { return o.attempt, o.foreign }
func (o *object) Request() cloud.CreateRequest {
	return cloud.CreateRequest{Zone: o.wish, Tags: o.tags}
}

func (o *object) UserData(context.Context) (data []byte, spent bool, err error) {
	o.steps = append(o.steps, "data")
	return []byte("boot"), o.spent, o.dataErr
}

func (o *object) OtherClasses(context.Context) ([]class.Resolved, error) { return o.others, nil }

func (o *object) RecordClass(_ context.Context, name string) error { return o.record("class " + name) }

func (o *object) RecordIntent(context.Context) error { return o.record("intent") }

func (o *object) RecordAttempt(_ context.Context, number int) error {
	o.attempt, o.foreign, o.spent = number, false, false
	return o.record(fmt.Sprintf("attempt %d", number))
}

func (o *object) RecordState(_ context.Context, state string) error {
	return o.record("state " + state)
}

func (o *object) RecordVM(_ context.Context, made cloud.VM) error {
	if o.refuses != "vm" {
		o.ref.ProviderID = made.ProviderID
	}
	return o.record("vm")
}

func (o *object) record(step string) error {
	o.steps = append(o.steps, step)
	if step == o.refuses {
		return errRefused
	}
	if o.noted != "" {
		o.ref.Scope = o.noted
	}
	return nil
}

// lifeEnv has one object, without a VM yet, in a simulated cloud.
type lifeEnv struct {
	*harness.Env
	cloud    *sim.Cloud
	registry *cloud.Registry
	engine   *Engine
	object   *object
}

func newLifeEnv(t *testing.T) *lifeEnv {
	t.Helper()
	env := &lifeEnv{Env: harness.New(t, harness.At(start),
		harness.With(fixture.Credentials("s", fixture.In[*corev1.Secret]("n"))))}
	env.cloud = env.NewCloud()
	env.registry = env.Registry(env.cloud, wrap.Scopes())
	env.engine = New(env.Clock, noFormerLeader)
	env.object = &object{ref: cloud.Ref{Name: "m", OwnerID: "owner", Created: start}, attempt: 1, wish: "sim-1b"}
	env.useClass(func(*machinev1.MachineClass) {})
	return env
}

// useClass gives the object a class in which that has changed.
func (env *lifeEnv) useClass(change func(*machinev1.MachineClass)) {
	env.Helper()
	c := fixture.MachineClass("c", fixture.In[*machinev1.MachineClass]("n"), func(c *machinev1.MachineClass) {
		c.Finalizers, c.SecretRef = []string{machinev1.Finalizer}, &corev1.SecretReference{Name: "s"}
	}, change)
	resolved, err := class.New(env.registry).ResolveObject(env.Context(), env.Raw, c)
	env.Must(err)
	env.object.class = resolved
}

func unprotected(c *machinev1.MachineClass) { c.Finalizers = nil }

func deleted(c *machinev1.MachineClass) { c.DeletionTimestamp = &metav1.Time{Time: start} }

// create creates the object's VM, and forgets the steps.
func (env *lifeEnv) create() cloud.VM {
	env.Helper()
	made, err := env.engine.Ensure(env.Context(), env.object)
	if err != nil {
		env.Fatal(err)
	}
	env.object.steps = nil
	return made
}

// wrap makes the object's account another one.
func (env *lifeEnv) wrap(by func(cloud.Account) cloud.Account) {
	inner := env.object.class.Account
	env.object.class.Account = func(ctx context.Context) (cloud.Account, error) {
		a, err := inner(ctx)
		return by(a), err
	}
}

// closed is an account that takes no calls of Create for now.
type closed struct{ cloud.Account }

func (closed) Admit(context.Context, cloud.CreateRequest) error { return errRefused }

// stepwise is an account that checkpoints before it creates.
type stepwise struct{ cloud.Account }

func (a stepwise) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	if err := r.Checkpoint(ctx, "s1"); err != nil {
		return cloud.VM{}, err
	}
	return a.Account.Create(ctx, r)
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	created := []string{"data", "intent", "vm"}
	cases := map[string]struct {
		reason string
		given  func(*lifeEnv)
		steps  []string // of the call
		vms    int      // in the cloud, after it
		fails  string   // reason or text of the error; empty if there is none
	}{
		"None": {"The intent is written before the VM is created.", func(*lifeEnv) {}, created, 1, ""},
		"Known": {
			"A VM that is recorded needs neither boot data nor an intent.",
			func(env *lifeEnv) { env.create() },
			[]string{"vm"},
			1, "",
		},
		"NotRecorded": {
			"A VM whose record was lost is found by the token.",
			func(env *lifeEnv) { env.create(); env.object.ref.ProviderID = "" },
			created, 1, "",
		},
		"ClassUnreadable": {
			"Nothing is done without the class.",
			func(env *lifeEnv) { env.object.classErr = errRefused },
			nil, 0, errRefused.Error(),
		},
		"ClassUnprotected": {
			"A class without finalizer could vanish before the VM.",
			func(env *lifeEnv) { env.useClass(unprotected) },
			nil, 0, ReasonUnprotected,
		},
		"ClassUnprotectedKnown": {
			"It matters no more when the VM exists.",
			func(env *lifeEnv) { env.create(); env.useClass(unprotected) },
			[]string{"vm"},
			1, "",
		},
		"ClassDeleting": {
			"A class that cannot be created from is refused before anything is recorded.",
			func(env *lifeEnv) { env.useClass(deleted) },
			nil, 0, "being deleted",
		},
		"ClassDeletingKnown": {
			"A class that is being deleted still serves the VMs that exist.",
			func(env *lifeEnv) { env.create(); env.useClass(deleted) },
			[]string{"vm"},
			1, "",
		},
		"NotAdmitted": {
			"Boot data is not made for a call that the account would not take.",
			func(env *lifeEnv) { env.wrap(func(a cloud.Account) cloud.Account { return closed{a} }) },
			nil, 0, errRefused.Error(),
		},
		"NoBootData": {
			"No VM is announced or created without boot data.",
			func(env *lifeEnv) { env.object.dataErr = errRefused },
			[]string{"data"},
			0, errRefused.Error(),
		},
		"IntentRefused": {
			"No VM is created on a stale object.",
			func(env *lifeEnv) { env.object.refuses = "intent" },
			[]string{"data", "intent"},
			0, "record intent",
		},
		"Spent": {
			"An attempt without boot data is looked up, for the settle time.",
			func(env *lifeEnv) { env.object.spent = true },
			[]string{"data", "intent"},
			0, "WaitingForLookup",
		},
		"SpentAndSettled": {
			"Then the next attempt is recorded, and nothing created under the old one.",
			func(env *lifeEnv) {
				env.object.spent = true
				_, _ = env.engine.Ensure(env.Context(), env.object)
				env.object.steps = nil
				env.Advance(time.Minute)
			},
			[]string{"data", "intent", "attempt 2"},
			0, "NewAttempt",
		},
		"Foreign": {
			"The VM of an attempt without our token is found and recorded; no boot data is made.",
			func(env *lifeEnv) { env.create(); env.object.ref.ProviderID, env.object.foreign = "", true },
			[]string{"intent", "vm"},
			1, "",
		},
		"Checkpoint": {
			"The driver's checkpoint is recorded by the object.",
			func(env *lifeEnv) { env.wrap(func(a cloud.Account) cloud.Account { return stepwise{a} }) },
			[]string{"data", "intent", "state s1", "vm"},
			1, "",
		},
		"CheckpointRefused": {
			"What could not be recorded is not done.",
			func(env *lifeEnv) {
				env.wrap(func(a cloud.Account) cloud.Account { return stepwise{a} })
				env.object.refuses = "state s1"
			},
			[]string{"data", "intent", "state s1"},
			0, errRefused.Error(),
		},
		"VMRefused": {
			"The caller learns of a VM that could not be recorded.",
			func(env *lifeEnv) { env.object.refuses = "vm" },
			created, 1, "record VM sim:///",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			tc.given(env)
			made, err := env.engine.Ensure(t.Context(), env.object)
			if !failsWith(err, tc.fails) {
				t.Errorf("error %v, want one of %q: %s", err, tc.fails, tc.reason)
			}
			if diff := cmp.Diff(tc.steps, env.object.steps); diff != "" {
				t.Errorf("%s Steps (-want +got):\n%s", tc.reason, diff)
			}
			vms := env.cloud.VMs()
			if len(vms) != tc.vms {
				t.Fatalf("%d VMs in the cloud, want %d: %s", len(vms), tc.vms, tc.reason)
			}
			if known := tc.vms > 0; known && (made.ID != vms[0].ID || made.Zone != "sim-1b") || !known && made.ID != "" {
				t.Errorf("VM %q in zone %q, and the cloud has %d: %s", made.ID, made.Zone, len(vms), tc.reason)
			}
		})
	}
}

// failsWith reports whether an error has that reason or text; empty stands for none.
func failsWith(err error, text string) bool {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Reason == text {
		return true
	}
	return err == nil && text == "" || err != nil && text != "" && strings.Contains(err.Error(), text)
}

func TestGet(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	if _, err := env.engine.Get(t.Context(), env.object); cloud.CodeOf(err) != cloud.NotFound {
		t.Errorf("error %v before there is a VM, want NotFound", err)
	}
	made := env.create()
	if got, err := env.engine.Get(t.Context(), env.object); err != nil || got.ID != made.ID {
		t.Errorf("VM %q, %v, want the one that was created, %q", got.ID, err, made.ID)
	}
	if len(env.object.steps) != 0 {
		t.Errorf("a look records %v", env.object.steps)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		recorded bool
	}{
		"Recorded":    {"Its id says which VM goes.", true},
		"NotRecorded": {"It is found by name and owner.", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newLifeEnv(t)
			env.create()
			if !tc.recorded {
				env.object.ref.ProviderID = ""
			}
			if d, err := env.engine.Remove(t.Context(), env.object); err != nil || d.Done || len(env.cloud.VMs()) != 0 {
				t.Errorf("%+v, %v, %d VMs: want it deleted, and that not believed yet. %s", d, err, len(env.cloud.VMs()),
					tc.reason)
			}
			env.Advance(time.Minute)
			if d, err := env.engine.Remove(t.Context(), env.object); err != nil || !d.Done {
				t.Errorf("%+v, %v after the settle time, want done. %s", d, err, tc.reason)
			}
		})
	}
}

func TestDiscardRemovesTheVMThatWasNotRecorded(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	recorded := env.create()
	extra := env.object.ref
	extra.ProviderID = ""
	other := &object{class: env.object.class, ref: extra, attempt: 2, refuses: "vm"}
	made, err := env.engine.Ensure(t.Context(), other)
	if !errors.Is(err, errRefused) || made.ID == recorded.ID {
		t.Fatalf("VM %q, %v: want another VM that could not be recorded", made.ID, err)
	}
	if _, err := env.engine.Discard(t.Context(), env.object, made); err != nil {
		t.Fatal(err)
	}
	if vms := env.cloud.VMs(); len(vms) != 1 || vms[0].ID != recorded.ID {
		t.Errorf("%d VMs are left, want the recorded one alone", len(vms))
	}
}

func TestNothingIsAskedWithoutAClass(t *testing.T) {
	t.Parallel()
	env := newLifeEnv(t)
	made := env.create()
	env.object.classErr = errRefused
	before := env.cloud.Calls("*")
	for name, call := range map[string]func() error{
		"Account": func() error { _, _, err := env.engine.Account(t.Context(), env.object); return err },
		"Get":     func() error { _, err := env.engine.Get(t.Context(), env.object); return err },
		"Ensure":  func() error { _, err := env.engine.Ensure(t.Context(), env.object); return err },
		"Remove":  func() error { _, err := env.engine.Remove(t.Context(), env.object); return err },
		"Discard": func() error { _, err := env.engine.Discard(t.Context(), env.object, made); return err },
	} {
		if err := call(); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v, want why the class could not be read", name, err)
		}
	}
	if got := env.cloud.Calls("*"); got != before {
		t.Errorf("%d calls of the cloud", got-before)
	}
}

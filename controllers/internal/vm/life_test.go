package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var errRefused = errors.New("refused")

// object is the object of a Machine in memory; what it is asked for, and what is recorded of it, is in steps.
type object struct {
	class    class.Resolved
	others   []class.Resolved
	classErr error
	ref      cloud.Ref
	attempt  int
	foreign  bool  // the attempt is not one of the engine
	spent    bool  // there is no boot data any more
	dataErr  error // of the boot data
	refuses  string
	steps    []string

	tags     map[string]string
	network  []cloud.Interface
	lost     bool   // the owner id may stand in for one that was lost
	claimant string // of any other owner id
	cluster  string // that the VM has to be of

	wish, zone string         // asked for, and recorded
	use        map[string]int // of the zones, by other machines
	useErr     error
	counted    int // how often use was asked for

	noted  string   // account that the next write takes along
	scopes []string // of other machines

	applied      string   // record of tags
	records      []string // each that was written
	fails        int      // the one of these that cannot be written, from 1
	bootData     bool
	bootDataErr  error // of its record
	controlPlane bool
	members      string // record of load balancers
	life         *life  // nil: it does not end
	hurried      bool
	told         string // the last Event
	candidates   []class.Resolved
	substitute   string
}

// machine is the object as it is now. Each request is recorded as if it were the first one.
func (o *object) machine() *Machine {
	id := o.ref.OwnerID
	self := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: o.ref.Name, UID: types.UID(id), CreationTimestamp: metav1.NewTime(o.ref.Created),
	}}
	if !o.lost {
		self.UID = "uid"
	}
	if id == "" {
		self.UID = ""
	}
	m := &Machine{
		Object: self, State: o.state(), Save: o.save, Noted: &o.noted,
		ClassName: "c", Class: o.class, ClassErr: o.classErr,
		Pool: func(context.Context) ([]fallback.Candidate, error) {
			pool := []fallback.Candidate{{Name: "c", Resolved: o.class}}
			for i := range o.others {
				pool = append(pool, fallback.Candidate{Name: fmt.Sprint("other", i), Resolved: o.others[i]})
			}
			return pool, nil
		},
		Substitutes: func(context.Context) ([]class.Resolved, error) { return o.candidates, nil },
		Peers:       o.peers,
		Request:     cloud.CreateRequest{Zone: o.wish, Tags: o.tags, Network: o.network},
		UserData: func(context.Context) ([]byte, bool, error) {
			o.steps = append(o.steps, "data")
			return []byte("boot"), o.spent, o.dataErr
		},
		ProviderIDOf: func(made cloud.VM) string { return made.ProviderID },
		Claimant:     func(context.Context, string, ...string) (string, error) { return o.claimant, nil },
		Cluster:      o.cluster, ControlPlane: o.controlPlane, Hurried: o.hurried,
		Emit: func(_, _, message string) { o.told = message },
	}
	return m
}

func (o *object) state() State {
	s := State{
		OwnerID: o.ref.OwnerID, Attempt: o.attempt, Foreign: o.foreign, Zone: o.zone, Account: o.ref.Scope,
		Checkpoint: o.ref.State, ProviderID: o.ref.ProviderID, Tags: o.applied, BootData: o.bootData,
		LoadBalancers: o.members, Substitute: o.substitute,
	}
	if o.lost {
		s.OwnerID = ""
	}
	return s
}

// peers are machines in the zones and accounts that are in use.
func (o *object) peers(context.Context) ([]Peer, error) {
	o.counted++
	var peers []Peer
	for zone, n := range o.use {
		peers = append(peers, slices.Repeat([]Peer{{State: State{Zone: zone}}}, n)...)
	}
	for _, scope := range o.scopes {
		peers = append(peers, Peer{State: State{Account: scope, ProviderID: "some"}, Deleting: true})
	}
	return peers, o.useErr
}

// save writes down what changes, and records it, unless that is refused.
func (o *object) save(_ context.Context, change func(*State)) (State, error) {
	was, is := o.state(), o.state()
	change(&is)
	step := o.stepOf(was, is)
	o.steps = append(o.steps, step)
	if err := o.failure(was, is, step); err != nil {
		return was, err
	}
	if is.OwnerID != was.OwnerID {
		o.ref.OwnerID, o.lost = is.OwnerID, false
	}
	if is.Attempt != was.Attempt {
		o.spent = false
	}
	if is.Tags != was.Tags {
		o.records = append(o.records, is.Tags)
	}
	o.attempt, o.foreign, o.zone, o.applied = is.Attempt, is.Foreign, is.Zone, is.Tags
	o.ref.ProviderID, o.ref.State, o.ref.Scope = is.ProviderID, is.Checkpoint, cmp.Or(o.noted, is.Account)
	o.bootData, o.members, o.substitute = is.BootData, is.LoadBalancers, is.Substitute
	return o.state(), nil
}

// failure is why that change cannot be recorded; nil if it can.
func (o *object) failure(was, is State, step string) error {
	switch {
	case step == o.refuses:
		return errRefused
	case is.LoadBalancers != was.LoadBalancers && o.life != nil:
		return o.life.effect()
	case is.Tags != was.Tags && len(o.records)+1 == o.fails:
		o.records = append(o.records, is.Tags)
		return errRefused
	case is.BootData != was.BootData:
		return o.bootDataErr
	}
	return nil
}

// stepOf names a change.
func (o *object) stepOf(was, is State) string {
	switch {
	case is.Requested:
		return "intent"
	case is.OwnerID != was.OwnerID:
		return "owner id " + is.OwnerID
	case is.Class != was.Class:
		return "class " + is.Class
	case is.Attempt != was.Attempt:
		return fmt.Sprintf("attempt %d", is.Attempt)
	case is.Checkpoint != was.Checkpoint:
		return "state " + is.Checkpoint
	case is.Zone != was.Zone:
		return "zone " + is.Zone
	case is.Substitute != was.Substitute:
		name, _, _ := strings.Cut(is.Substitute, "/")
		return "substitute " + name
	case is.Account != was.Account:
		return "scope " + is.Account
	case is.Tags != was.Tags:
		return "tags"
	case is.LoadBalancers != was.LoadBalancers:
		return "load balancers"
	case is.BootData != was.BootData:
		return "boot data"
	}
	return "vm"
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
	env.engine = New(env.Clock, noFormerLeader, nil)
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
	made, err := env.engine.Ensure(env.Context(), env.object.machine())
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
				_, _ = env.engine.Ensure(env.Context(), env.object.machine())
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
			made, err := env.engine.Ensure(t.Context(), env.object.machine())
			if !failsWith(err, tc.fails) {
				t.Errorf("error %v, want one of %q: %s", err, tc.fails, tc.reason)
			}
			if diff := gocmp.Diff(tc.steps, env.object.steps); diff != "" {
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
	if _, err := env.engine.Get(t.Context(), env.object.machine()); cloud.CodeOf(err) != cloud.NotFound {
		t.Errorf("error %v before there is a VM, want NotFound", err)
	}
	made := env.create()
	if got, err := env.engine.Get(t.Context(), env.object.machine()); err != nil || got.ID != made.ID {
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
			d, err := env.engine.Remove(t.Context(), env.object.machine())
			if err != nil || d.Done || len(env.cloud.VMs()) != 0 {
				t.Errorf("%+v, %v, %d VMs: want it deleted, and that not believed yet. %s", d, err, len(env.cloud.VMs()),
					tc.reason)
			}
			env.Advance(time.Minute)
			if d, err := env.engine.Remove(t.Context(), env.object.machine()); err != nil || !d.Done {
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
	made, err := env.engine.Ensure(t.Context(), other.machine())
	if !errors.Is(err, errRefused) || made.ID == recorded.ID {
		t.Fatalf("VM %q, %v: want another VM that could not be recorded", made.ID, err)
	}
	if _, err := env.engine.Discard(t.Context(), env.object.machine(), made); err != nil {
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
		"Account": func() error { _, err := env.engine.Account(t.Context(), env.object.machine()); return err },
		"Get":     func() error { _, err := env.engine.Get(t.Context(), env.object.machine()); return err },
		"Ensure":  func() error { _, err := env.engine.Ensure(t.Context(), env.object.machine()); return err },
		"Remove":  func() error { _, err := env.engine.Remove(t.Context(), env.object.machine()); return err },
		"Discard": func() error { _, err := env.engine.Discard(t.Context(), env.object.machine(), made); return err },
	} {
		if err := call(); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v, want why the class could not be read", name, err)
		}
	}
	if got := env.cloud.Calls("*"); got != before {
		t.Errorf("%d calls of the cloud", got-before)
	}
}

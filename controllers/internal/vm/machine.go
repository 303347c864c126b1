package vm

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
)

// Machine is an object of one of the APIs that has a VM, in one pass over it. Fields without a comment on nil or
// zero are required.
type Machine struct {
	// Object is what has the VM: its name, namespace, UID and time of creation count.
	Object client.Object
	// State is what is on record of the VM.
	State State
	// Save persists what change makes of the State before the engine goes on, and returns the State that is on
	// record then. It fails on a stale object, and writes nothing where nothing changes.
	Save func(ctx context.Context, change func(*State)) (State, error)
	// Noted is the account that the next write of the object records as State.Account; empty is none. Whoever
	// writes the object beside Save takes it along with CarryScope.
	Noted *string

	// ClassName names the class of the VM, Class is what this pass resolved it to, and ClassErr why it could not be
	// read; nil: it could.
	ClassName string
	Class     class.Resolved
	ClassErr  error
	// Pool are the classes that the machine may have, in the order of preference; nil: it is not asked which.
	Pool func(ctx context.Context) ([]fallback.Candidate, error)
	// Substitutes are the classes that may reach the VM of a machine that is being deleted and whose own class cannot
	// be used, that of State.Substitute first.
	Substitutes func(ctx context.Context) ([]class.Resolved, error)
	// Peers are the other machines of the class, as far as caches show them.
	Peers func(ctx context.Context) ([]Peer, error)

	// Request is what the object asks for beside its class. Ref, Token, UserData and Checkpoint are filled in by the
	// engine, and Zone if it is empty.
	Request cloud.CreateRequest
	// UserData is the boot data of the attempt, the same bytes each time. spent means that the attempt can have none
	// any more, e.g. because its token has expired.
	UserData func(ctx context.Context) (data []byte, spent bool, err error)
	// ProviderIDOf is the id of a VM in the form that the object keeps; empty while the cloud does not know it.
	ProviderIDOf func(made cloud.VM) string
	// Accepts returns an error that is ErrNotAccepted for a VM that is not recorded as the machine's; nil accepts all.
	Accepts func(ctx context.Context, made cloud.VM) error

	// Claimant is another object of either API that has the owner id, or one of these providerIDs, on the API server;
	// empty if there is none.
	Claimant func(ctx context.Context, ownerID string, providerIDs ...string) (string, error)
	// Cluster is the id of the Cluster that the VM is tagged with; empty accepts any.
	Cluster string
	// ControlPlane is set for a VM whose boot data has the keys of a cluster's certificate authorities.
	ControlPlane bool
	// Released is set where the user accepts that the VM stays: its deletion waits for no load balancer, and asks no
	// other class.
	Released bool
	// Hurried is set where the deletion waits for no load balancer.
	Hurried bool
	// Emit emits an Event about the object.
	Emit func(eventType, reason, message string)

	// insteadOf is the machine as it is, where this one is the machine with another class; nil: it is itself.
	insteadOf *Machine
}

// ErrNotAccepted is why a VM that was made or found for a machine is not recorded.
var ErrNotAccepted = errors.New("the VM is not accepted")

// State is what an API keeps of the VM of a machine. It survives a restart of the manager and a move of the object.
type State struct {
	OwnerID    string // empty: none yet, or somebody has removed it
	Attempt    int    // number of the current attempt at the VM, from 1
	Foreign    bool   // the attempt was begun without a token of the engine: it is looked up, not repeated
	Requested  bool   // a VM was asked for, or is about to be
	Class      string // that the VM was asked for from; empty: none is on record
	NextClass  string // with which the machine goes on once nothing is left of the VM of Class; empty: none
	Zone       string // that the engine has chosen; empty: none
	Account    string // of the cloud, in which the VM is; empty: not known
	Checkpoint string // of the driver, while a VM is being made; empty: none
	ProviderID string // in the form that the API keeps; empty: no VM is known
	NodeName   string // empty: not known
	Complete   bool   // nothing is left to be made of the VM

	Tags          string // which tags the VM has got; empty: its class has never let it follow them
	BootData      bool   // the cloud may keep boot data of the VM
	LoadBalancers string // which the VM may be registered with; empty: none
	Substitute    string // class with which the VM is deleted instead of its own, "/", its Place; empty: its own
}

// Peer is another machine of a class.
type Peer struct {
	State
	Deleting bool
}

// ReadState reads what both APIs keep in the same annotations.
func ReadState(o client.Object) State {
	get := o.GetAnnotations()
	s := State{
		OwnerID: get[machinev1.OwnerIDAnnotation],
		Attempt: 1, Foreign: get[machinev1.CreateAttemptAnnotation] == AttemptUnknown,
		NextClass: get[machinev1.NextClassAnnotation], Zone: get[machinev1.ZoneAnnotation],
		Account: get[machinev1.CloudScopeAnnotation], Tags: get[machinev1.AppliedTagsAnnotation],
		BootData: get[machinev1.BootDataAnnotation] != "", LoadBalancers: get[machinev1.LoadBalancersAnnotation],
		Substitute: get[machinev1.SubstituteClassAnnotation],
	}
	if n, err := strconv.Atoi(get[machinev1.CreateAttemptAnnotation]); err == nil && n > 1 {
		s.Attempt = n
	}
	return s
}

// AttemptUnknown is the number of an attempt of MCM, which used no token of the engine, and of one whose number was
// lost: nothing is created before the VM has been looked up.
const AttemptUnknown = "0"

// AttemptText is the number of the attempt as it stands in an annotation.
func (s State) AttemptText() string {
	if s.Foreign {
		return AttemptUnknown
	}
	return strconv.Itoa(s.Attempt)
}

// Write writes what both APIs keep in the same annotations, but for the number of the attempt.
func (s State) Write(o client.Object) {
	bootData := ""
	if s.BootData {
		bootData = cmp.Or(o.GetAnnotations()[machinev1.BootDataAnnotation], machinev1.BootDataKept)
	}
	for annotation, value := range map[string]string{
		machinev1.OwnerIDAnnotation: s.OwnerID, machinev1.NextClassAnnotation: s.NextClass, machinev1.ZoneAnnotation: s.Zone,
		machinev1.CloudScopeAnnotation: s.Account, machinev1.AppliedTagsAnnotation: s.Tags,
		machinev1.BootDataAnnotation: bootData, machinev1.LoadBalancersAnnotation: s.LoadBalancers,
		machinev1.SubstituteClassAnnotation: s.Substitute,
	} {
		machinev1.SetOrRemoveAnnotation(o, annotation, value)
	}
}

// CarryScope adds an account that was noted to a change of an object, if that changes anything; empty adds
// nothing.
func CarryScope[T interface {
	client.Object
	DeepCopy() T
}](noted string, change func(T)) func(T) {
	if noted == "" {
		return change
	}
	return func(o T) {
		before := o.DeepCopy()
		change(o)
		if !equality.Semantic.DeepEqual(before, o) {
			machinev1.SetAnnotation(o, machinev1.CloudScopeAnnotation, noted)
		}
	}
}

// Ref identifies the VM. A machine with another class whose VM no record names may
// have it in another account than its own class.
func (m *Machine) Ref() cloud.Ref {
	ref := cloud.Ref{
		Name: m.Object.GetName(), OwnerID: cmp.Or(m.State.OwnerID, string(m.Object.GetUID())),
		ProviderID: m.State.ProviderID, State: m.State.Checkpoint, Class: m.Class.Class,
		Created: m.Object.GetCreationTimestamp().Time,
		Scope:   m.State.Account,
		Object: cloud.Object{
			UID: string(m.Object.GetUID()), Labels: m.Object.GetLabels(), Annotations: m.Object.GetAnnotations(),
		},
	}
	if own := m.insteadOf; own != nil && ref.ProviderID == "" && own.ClassErr == nil &&
		own.Class.Place() != m.Class.Place() {
		ref.Scope = ""
	}
	return ref
}

// with is the machine with another class.
func (m *Machine) with(other class.Resolved) *Machine {
	changed := *m
	changed.Class, changed.ClassErr, changed.insteadOf = other, nil, m
	return &changed
}

// save persists what change makes of the State, which is on record then for the machine with each class.
func (m *Machine) save(ctx context.Context, change func(*State)) error {
	s, err := m.Save(ctx, change)
	if err != nil {
		return err
	}
	for one := m; one != nil; one = one.insteadOf {
		one.State = s
	}
	return nil
}

// found is a State on which a VM is recorded that the object names by that providerID.
func (s State) found(providerID string, made cloud.VM) State {
	s.ProviderID, s.NodeName = cmp.Or(s.ProviderID, providerID), cmp.Or(made.NodeName, s.NodeName)
	s.Complete = s.Complete || made.RetryAfter <= 0
	return s
}

// otherClasses are the classes of the pool beside the machine's own.
func (m *Machine) otherClasses(ctx context.Context) ([]class.Resolved, error) {
	pool, err := m.Pool(ctx)
	var others []class.Resolved
	for i := range pool {
		if pool[i].Name != m.ClassName {
			others = append(others, pool[i].Resolved)
		}
	}
	return others, err
}

// saveAccount persists an account now; empty removes the record.
func (m *Machine) saveAccount(ctx context.Context, account string) error {
	*m.Noted = ""
	return m.save(ctx, func(s *State) { s.Account = account })
}

// mayHaveLostOwnerID reports whether the machine has no owner id, or one that may stand in for one that was lost: the
// UID of the object, or a random UUID, which is that of the object that this one is a copy of. What a MachineSet gives
// is derived, and stays.
func (m *Machine) mayHaveLostOwnerID() bool {
	stored := m.State.OwnerID
	id, err := uuid.Parse(stored)
	return stored == "" || stored == string(m.Object.GetUID()) || err == nil && id.Version() == 4
}

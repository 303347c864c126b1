package migration

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// API is one of the two APIs that machines are managed through.
type API string

// The APIs.
const (
	Native     API = "native"
	ClusterAPI API = "clusterapi"
)

// Other returns the other API.
func (a API) Other() API {
	if a == Native {
		return ClusterAPI
	}
	return Native
}

// Title names the API in a sentence.
func (a API) Title() string {
	if a == Native {
		return "the native API"
	}
	return "Cluster API"
}

// Kind is what a pool is headed by; it has the same name on both APIs.
type Kind string

// The kinds of pools.
const (
	KindDeployment Kind = "machinedeployment"
	KindSet        Kind = "machineset" // one that belongs to no MachineDeployment
	KindMachine    Kind = "machine"    // one that belongs to no MachineSet
)

// Pool names what is moved as one.
type Pool struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is "machinedeployment/name", as a command takes it.
func (p Pool) String() string { return string(p.Kind) + "/" + p.Name }

// ParsePool reads what String writes; a name alone is that of a MachineDeployment.
// The kind may be any word that kubectl takes for it, also with its group, as
// kubectl get -o name prints it.
func ParsePool(namespace, text string) (Pool, error) {
	word, name, ok := strings.Cut(text, "/")
	if !ok {
		word, name = string(KindDeployment), text
	}
	word, group, _ := strings.Cut(strings.ToLower(word), ".")
	kind, known := kindWords()[word]
	if !known || !isMachineGroup(group) || name == "" || strings.Contains(name, "/") {
		return Pool{}, fmt.Errorf("%q names no pool: say NAME, machinedeployment/NAME, machineset/NAME or machine/NAME", text)
	}
	return Pool{kind, namespace, name}, nil
}

// kindWords are the words for the kinds of pools, on both APIs.
func kindWords() map[string]Kind {
	return map[string]Kind{
		"machinedeployment": KindDeployment, "machinedeployments": KindDeployment, "mcd": KindDeployment,
		"md":         KindDeployment,
		"machineset": KindSet, "machinesets": KindSet, "mcs": KindSet, "ms": KindSet,
		"machine": KindMachine, "machines": KindMachine, "mc": KindMachine, "ma": KindMachine,
	}
}

// isMachineGroup reports whether a group, maybe with a version before it, is one of the APIs'.
// None is both.
func isMachineGroup(group string) bool {
	return group == "" || strings.HasSuffix("."+group, "."+machinev1.GroupVersion.Group) ||
		strings.HasSuffix("."+group, "."+clusterv1.GroupVersion.Group)
}

func (k Kind) rank() int { return slices.Index([]Kind{KindDeployment, KindSet, KindMachine}, k) }

// defaultNodeConditions are MCM's of --node-conditions.
const defaultNodeConditions = "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable"

// Complete returns d with MCM's defaults where it says nothing.
func (d Defaults) Complete() Defaults {
	for _, field := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&d.DrainTimeout, 2 * time.Hour},
		{&d.HealthTimeout, 10 * time.Minute},
		{&d.CreationTimeout, 20 * time.Minute},
		{&d.InPlaceUpdateTimeout, 20 * time.Minute},
		{&d.PvDetachTimeout, 2 * time.Minute},
	} {
		if *field.value <= 0 {
			*field.value = field.fallback
		}
	}
	if d.NodeConditions == "" {
		d.NodeConditions = defaultNodeConditions
	}
	return d
}

// Options are what a person decides about a move.
type Options struct {
	// To is the API to move to.
	To API
	// Cluster is the name of the Cluster, in the pools' namespace, that the machines
	// are to belong to, or belong to. One that does not exist is made.
	Cluster string
	// KubeconfigSecret names the Secret, in the pools' namespace, through which
	// Cluster API reaches the cluster with the nodes. Empty: that is the cluster
	// with the objects, and the Cluster becomes self-hosted.
	KubeconfigSecret string
	// Apart is true when the nodes are known to be in another cluster than the objects,
	// see [Apart]: then Cluster API has to be told how to reach it.
	Apart bool
	// Accept names fields, as findings spell them, whose loss is accepted.
	Accept []string
	// Defaults hold where a Machine says nothing: the flags of its manager.
	Defaults Defaults
	// Now is when a plan is made: a Lease that has expired by then has no holder.
	// Zero: every Lease with a holder counts as held.
	Now time.Time
	// Timeout is how long one step may wait for controllers; 0 is 10 minutes.
	Timeout time.Duration
	// TakeOver goes on with a pool although another command seems to work on it.
	TakeOver bool

	Rollback bool // the machines go home as they are, whatever a plan says
}

// Defaults are the manager's flags of the same names.
type Defaults struct {
	DrainTimeout         time.Duration // 0 is 2h
	HealthTimeout        time.Duration // 0 is 10m
	CreationTimeout      time.Duration // 0 is 20m
	NodeConditions       string        // empty is KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable
	InPlaceUpdateTimeout time.Duration // 0 is 20m
	MaxEvictRetries      int32         // 0 is the manager's
	PvDetachTimeout      time.Duration // 0 is 2m
	// KubeletVersion is what machines of pools without nodes will run, as their
	// kubelet will report it: "v1.36.3". Where there are nodes, theirs counts.
	KubeletVersion string
}

// Level is what a Finding means for a move.
type Level string

// The levels, from good to bad.
const (
	Kept     Level = "kept"     // means the same on the other API
	Replaced Level = "replaced" // something else does the same there
	Advised  Level = "advised"  // not in the way of a takeover, and better done
	Lost     Level = "lost"     // has no counterpart; moved only if the user accepts that field by name
	Blocked  Level = "blocked"  // not moved until the remedy is done
)

// Finding is what becomes of one field, or why something cannot be moved yet.
type Finding struct {
	Level  Level  `json:"level"`
	Object string `json:"object"`           // "MachineDeployment default/pool"
	Field  string `json:"field"`            // "spec.strategy.type"; empty: the object as a whole
	Text   string `json:"text"`             // what becomes of it, or why not
	Remedy string `json:"remedy,omitempty"` // what to do first; empty if there is nothing to do
}

// Finding is one of that level.
func (l Level) Finding(object, field, text, remedy string) Finding {
	return Finding{Level: l, Object: object, Field: field, Text: text, Remedy: remedy}
}

// String is one line for a person.
func (f Finding) String() string {
	s := f.Object
	if f.Field != "" {
		s += " " + f.Field
	}
	s = fmt.Sprintf("%s: %s: %s", f.Level, s, f.Text)
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	return s
}

// Holder is who holds a Lease.
type Holder string

// The holders of MCM's leases. Two processes of MCM's hold one each, a manager of
// this project holds both, and each works only while it holds its own.
const (
	HolderNobody  Holder = "nobody"  // it is free, was given back, or has run out
	HolderOurs    Holder = "ours"    // a manager of this project
	HolderForeign Holder = "foreign" // somebody else, Machine Controller Manager most likely
)

// leaseSkew is how far clocks may be apart: a Lease that has only just run out by
// the clock here may be alive by its holder's.
const leaseSkew = 30 * time.Second

// HolderOf says who holds a Lease at a time; nil is one that does not exist. A
// Lease whose holder does not say until when counts as held. What is said is true
// of that moment only: only the Deployments show whether another manager is
// about to start.
func HolderOf(l *coordinationv1.Lease, now time.Time) Holder {
	if l == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || ranOut(&l.Spec, now) {
		return HolderNobody
	}
	if mark := l.Labels[machinev1.LeaseHolderLabel]; mark != "" && mark == machinev1.LeaseMark(*l.Spec.HolderIdentity) {
		return HolderOurs
	}
	return HolderForeign
}

// ranOut reports whether the holder has not renewed the Lease for so long that
// somebody else may have it.
func ranOut(s *coordinationv1.LeaseSpec, now time.Time) bool {
	if s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.After(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second + leaseSkew))
}

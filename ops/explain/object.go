package explain

import (
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// API is one of the two APIs for machines.
type API string

// The APIs.
const (
	Native     API = "native"
	ClusterAPI API = "clusterapi"
)

// Kinds that both APIs have, and those of Cluster API alone.
const (
	KindDeployment   = "MachineDeployment"
	KindSet          = "MachineSet"
	KindMachine      = "Machine"
	KindCluster      = "Cluster"
	KindMCMCluster   = "MCMCluster"
	KindMCMMachine   = "MCMMachine"
	KindMCMConfig    = "MCMConfig"
	KindControlPlane = "MCMExternalControlPlane"
	KindClass        = "MachineClass"
	KindNode         = "Node"
)

// Ref names an object.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String is the object as kubectl names it, e.g. machineset.machine.sapcloud.io/workers.
func (r Ref) String() string {
	group, _, grouped := strings.Cut(r.APIVersion, "/")
	if !grouped {
		return strings.ToLower(r.Kind) + "/" + r.Name
	}
	return strings.ToLower(r.Kind) + "." + group + "/" + r.Name
}

// Condition is a condition of an object of either API.
type Condition struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	Since   time.Time
}

// Object is an object of either API, with what an explanation needs of it.
type Object struct {
	Ref
	API             API
	UID, Owner      types.UID // Owner controls it; empty: none
	CopiedFrom      types.UID // the object of the other API that a migration made it from; empty: none
	Created         time.Time
	Deleting        *time.Time
	Labels          map[string]string
	Conditions      []Condition
	Phase           string // of a machine
	PhaseSince      time.Time
	Desired         int32 // machines of a pool, and how many of them there are
	Ready           int32
	Updated         int32
	Class           string // MachineClass; empty: not known
	Pool            string // MachineDeployment of a native Machine
	Cluster         string
	Node            string // the name that the node has or will have
	ProviderID      string
	Joined          bool   // a node is recorded in the status
	OwnerID         string // of a machine: what its trace, and of a native one its bootstrap token, follow from
	Attempt         int
	Operation       Operation
	Credentials     Ref // Secrets of a MachineClass; no names: none
	Boot            Ref
	Creation, Drain *time.Duration // timeouts of its own; nil: the manager's flags
	Health          *time.Duration
	// DrainBegan and DetachBegan are when Cluster API began to drain the node of a Machine, and to
	// wait for its volumes; zero: it has not.
	DrainBegan, DetachBegan time.Time
}

// Operation is status.lastOperation of a native Machine.
type Operation struct {
	Type, State, Code, Description string
	Since                          time.Time
}

// condition returns the condition of that type; nil if there is none, or no object.
func (o *Object) condition(kind string) *Condition {
	if o == nil {
		return nil
	}
	for i := range o.Conditions {
		if o.Conditions[i].Type == kind {
			return &o.Conditions[i]
		}
	}
	return nil
}

// Facts are what was read, at one time.
type Facts struct {
	Now      time.Time
	Objects  []*Object
	Nodes    []corev1.Node
	Events   []corev1.Event
	Requests []certificatesv1.CertificateSigningRequest
	Tokens   map[string]Token // bootstrap tokens by ID; see TokensRead
	// TokensRead has the IDs that were looked up, so that one without a Token does not exist.
	TokensRead map[string]bool
	// Consoles are what is kept of machines that did not join, by namespace/name of the Secret.
	Consoles map[string][]console.Failure
	// Unread is what could not be read, e.g. because the user may not: a finding that
	// would need it is left out.
	Unread []string
	// TargetError is why the Nodes cannot be read; empty: they were.
	TargetError string

	index *index // made with the first question; Facts do not change after that
}

// index finds objects without going through all of them: a fleet has ten thousand.
type index struct {
	byUID   map[types.UID]*Object
	byOwner map[types.UID][]*Object
	copies  map[types.UID]*Object // by what a migration made them from
	byName  map[string][]*Object  // by kind and name
	nodes   map[string]*corev1.Node
	nodeIDs map[string][]*corev1.Node // by the last part of their providerIDs
}

// indexed returns the index, which is made once.
func (f *Facts) indexed() *index {
	if f.index != nil {
		return f.index
	}
	f.index = &index{
		byUID: map[types.UID]*Object{}, byOwner: map[types.UID][]*Object{}, byName: map[string][]*Object{},
		copies: map[types.UID]*Object{}, nodes: map[string]*corev1.Node{}, nodeIDs: map[string][]*corev1.Node{},
	}
	for _, o := range f.Objects {
		if o.UID != "" {
			f.index.byUID[o.UID] = o
		}
		if o.CopiedFrom != "" {
			f.index.copies[o.CopiedFrom] = o
		}
	}
	for _, o := range f.Objects {
		if f.index.ownsItself(o) {
			o.Owner = "" // so that every way up or down has an end
		}
		if o.Owner != "" {
			f.index.byOwner[o.Owner] = append(f.index.byOwner[o.Owner], o)
		}
		f.index.byName[o.Kind+"/"+o.Name] = append(f.index.byName[o.Kind+"/"+o.Name], o)
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		f.index.nodes[n.Name] = n
		f.index.nodeIDs[last(n.Spec.ProviderID)] = append(f.index.nodeIDs[last(n.Spec.ProviderID)], n)
	}
	return f.index
}

// ownsItself reports whether the owners of o lead back to it, which no API server refuses.
func (x *index) ownsItself(o *Object) bool {
	seen := map[types.UID]bool{}
	for owner := x.byUID[o.Owner]; owner != nil && !seen[owner.UID]; owner = x.byUID[owner.Owner] {
		if owner == o {
			return true
		}
		seen[owner.UID] = true
	}
	return false
}

// Token is a bootstrap token, without its secret part.
type Token struct {
	Expires time.Time // zero: never
}

// Find returns the objects of a kind and name; both APIs may have one.
func (f *Facts) Find(kind, name string) []*Object { return f.indexed().byName[kind+"/"+name] }

// children are the objects that o controls.
func (f *Facts) children(o *Object) []*Object { return f.indexed().byOwner[o.UID] }

// owner is the object that controls o; nil if there is none.
func (f *Facts) owner(o *Object) *Object { return f.indexed().byUID[o.Owner] }

// child is the first object of a kind that o controls; nil if there is none.
func (f *Facts) child(o *Object, kind string) *Object {
	for _, other := range f.children(o) {
		if other.Kind == kind {
			return other
		}
	}
	return nil
}

// named is the object of a kind in a namespace; nil if there is none.
func (f *Facts) named(kind, namespace, name string) *Object {
	for _, o := range f.Find(kind, name) {
		if o.Namespace == namespace {
			return o
		}
	}
	return nil
}

// node is the Node of a machine; nil if there is none. On Cluster API one of its name and another
// providerID belongs to another cluster.
func (f *Facts) node(o *Object) *corev1.Node {
	n := f.indexed().nodes[o.Node]
	if n == nil || o.API == ClusterAPI && n.Spec.ProviderID != o.ProviderID {
		return nil
	}
	return n
}

// MachinesOfNode returns the Machines whose node has that name.
func (f *Facts) MachinesOfNode(name string) []*Object {
	var found []*Object
	for _, o := range f.Objects {
		if o.Kind == KindMachine && o.Node == name && name != "" {
			found = append(found, o)
		}
	}
	return found
}

package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"
)

// A Driver is what is known about a cloud without calling it. Its methods make
// no calls except Open, do not block, and are safe for concurrent use.
type Driver interface {
	// Traits are the cloud's constants. They never change.
	Traits() Traits

	// Parse decodes a provider spec as leniently as MCM's driver does, fills in
	// defaults and checks it. It always returns a Class. Problems are sorted by
	// field; the severity of each says which calls it blocks.
	Parse(in ClassInput) (Class, []Problem)

	// CheckSecret reports which entries of a Secret the cloud needs and does not
	// find. It looks only at credentials, never at user data.
	CheckSecret(c Class, creds Credentials) []Problem

	// DecodeProviderID returns the cloud's own id of the VM that a providerID in
	// any known form stands for; ok is false if it is none of this cloud's.
	DecodeProviderID(providerID string) (id string, ok bool)

	// Open returns an Account for these credentials at the class's endpoint. It
	// may log in, and it keeps neither argument.
	// Codes: Invalid, Denied, Throttled, Unavailable.
	Open(ctx context.Context, c Class, creds Credentials) (Account, error)
}

// An Account makes, shows and removes VMs with one set of credentials at one
// endpoint. It is safe for concurrent use. Every call returns within a second
// after ctx ends, with ctx.Err() in the chain of its error. An Account that
// holds sessions or goroutines is also an io.Closer.
type Account interface {
	// Create makes the VM of r, finishes its configuration (what MCM calls
	// initialisation) and returns it, usually still pending. While more is to be
	// done, VM.RetryAfter is positive and Create has to be called again with the
	// same request; once it has returned a ProviderID, UserData and Network may be
	// empty then.
	//
	// For equal Name and Token there is at most one VM, also when an earlier
	// call failed or its answer was lost. What it made stays findable by Delete
	// when it fails. Before a side effect that has no idempotency key it calls
	// r.Checkpoint.
	// Codes: Invalid, Denied, Exhausted, Throttled, Unavailable, TokenUsed, Unknown.
	Create(ctx context.Context, r CreateRequest) (VM, error)

	// Get returns the VM as the cloud shows it now. For up to Traits.Settle
	// after a Create it may still say NotFound.
	// Codes: NotFound, Denied, Throttled, Unavailable, Unknown.
	Get(ctx context.Context, r Ref) (VM, error)

	// Delete asks for the VM, and the disks, interfaces, addresses and keys that
	// were made with it, to go, and reports whether they are gone. Done is true, and
	// the error nil, when nothing is there. Without a VM it removes what is left
	// of one. What was to stay when the VM was made stays, and counts as nothing there,
	// whatever r.Class says; so does what nothing shows the decision of.
	// Codes: Denied, Throttled, Unavailable, Unknown.
	Delete(ctx context.Context, r Ref) (Deletion, error)

	// List yields every resource of these kinds that carries the ownership tags of c
	// once, page by page, in no order. No kinds are all kinds. It asks the cloud only for
	// what is wanted, and stops after the first error.
	List(ctx context.Context, c Class, kinds ...Kind) iter.Seq2[Resource, error]

	// Capacity returns what a node of c will offer.
	// Codes: Invalid (unknown type), Denied, Throttled, Unavailable, Unknown.
	Capacity(ctx context.Context, c Class) (Capacity, error)
}

// A VolumeNamer is a Driver that can name the cloud's volumes behind persistent
// volumes, as they appear in a node's list of attached volumes.
type VolumeNamer interface {
	// VolumeID returns the id of v; ok is false if v is not of this cloud.
	VolumeID(v Volume) (id string, ok bool)
}

// Volume is what a persistent volume says about its place: a CSI driver or the
// name of an in-tree plugin, and the handle there.
type Volume struct{ Driver, Handle string }

// Traits are what controllers must respect about a cloud.
type Traits struct {
	Name        string        // as in MachineClass.provider
	Aliases     []string      // other spellings of Name that are accepted
	UserDataMax int           // bytes of CreateRequest.UserData before any encoding; 0 is no limit
	Names       NameLimits    // what the cloud takes as Ref.Name
	Settle      time.Duration // how long Get and List may miss a new VM
	NodeNamed   bool          // the node is named after the machine

	// CreateKey reports whether a request for a VM that is carried out twice makes one
	// VM, because the cloud takes an idempotency key or its names are unique. Without it
	// Create calls Checkpoint before the request, and when it does not know what became
	// of one, it waits for Settle and looks before it asks again.
	CreateKey bool

	// SharedNames reports whether the cloud takes several VMs of one name, so that only the idempotency
	// key of an attempt keeps Create from making another one. Before it first asks for a VM of a class the
	// engine lists those that exist: a restore of the API server may have taken back the number of the
	// attempt that made one of them.
	SharedNames bool

	// StickyKeys reports whether the cloud answers a request that it has refused for lack of
	// capacity, and that is repeated with the same idempotency key, with that refusal for ever.
	// After Exhausted the engine then looks whether a VM is there, and begins a new attempt.
	StickyKeys bool

	// StaticAddresses reports whether Create honours CreateRequest.Network. Without it no
	// request has one.
	StaticAddresses bool

	// Reboots reports whether accounts are Rebooters.
	Reboots bool

	// Consoles reports whether accounts are ConsoleReaders.
	Consoles bool

	// Legacy reports whether the driver keeps neither owner ids nor tags of ours, as those
	// that were written for MCM. Only the native API takes its classes.
	Legacy bool

	Rates  Rates      // what the cloud allows an account
	Tags   TagLimits  // what the cloud takes as tags
	Secret SecretKeys // the entries of a Secret that the driver reads to log in
}

// NameLimits are what a cloud takes as the name of a machine. The zero value is no limit.
type NameLimits struct {
	Max   int    // characters; 0 is no limit
	Chars string // the characters that it takes, as "a-z0-9-"; empty is any
	First string // those that a name may begin with; empty is any of Chars
}

// TagLimits are what a cloud takes as the tags of a resource. The zero value is no limit.
type TagLimits struct {
	Keys, Values     string // the characters that it takes, as "a-z0-9_-"; empty is any
	KeyMax, ValueMax int    // characters; 0 is no limit
	Max              int    // tags of a resource; 0 is no limit
}

// Rates are how many calls of each method of Account a cloud allows, each apart
// from the others.
// Members are those of a Registrar.
type Rates struct{ Create, Get, Delete, List, Capacity, Tags, Members Rate }

// Or returns r, and what other says where r says nothing.
func (r Rates) Or(other Rates) Rates {
	return Rates{
		Create: cmp.Or(r.Create, other.Create), Get: cmp.Or(r.Get, other.Get), Delete: cmp.Or(r.Delete, other.Delete),
		List: cmp.Or(r.List, other.List), Capacity: cmp.Or(r.Capacity, other.Capacity), Tags: cmp.Or(r.Tags, other.Tags),
		Members: cmp.Or(r.Members, other.Members),
	}
}

// Rate is a token bucket. The zero value is unknown.
type Rate struct {
	PerSecond float64 // in the long run
	Burst     int     // at once
}

// ClassInput is a MachineClass as far as a driver needs it.
type ClassInput struct {
	Name, Namespace string
	Spec            json.RawMessage   // MachineClass.providerSpec as written
	Labels          map[string]string // of the MachineClass
	Annotations     map[string]string // of the MachineClass
}

// Class is a parsed provider spec.
type Class struct {
	Name, Namespace string // of the MachineClass

	// Endpoint is what, together with the credentials, tells accounts apart, e.g.
	// region and URL. It is no secret.
	Endpoint string
	// Owner is equal for classes whose List yields the same resources.
	Owner string

	Region, Zone, InstanceType string

	// Zones are those that the class names beside Zone, sorted, nil for none.
	Zones []string
	// AnyZone reports whether CreateRequest.Zone may also name a zone that the class
	// does not. Only the cloud knows which there are: Create refuses others as Invalid
	// before it makes anything.
	AnyZone bool

	// Spec is the driver's own form of the spec. It is never modified.
	Spec any
}

// TakesZone reports whether CreateRequest.Zone may be zone, as far as the class says.
func (c Class) TakesZone(zone string) bool {
	return zone == "" || c.AnyZone || zone == c.Zone || slices.Contains(c.Zones, zone)
}

// NamedZones are the zones that the class names, sorted.
func (c Class) NamedZones() []string {
	zones := slices.Clone(c.Zones)
	if c.Zone != "" {
		zones = append(zones, c.Zone)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// Ref identifies the VM of a machine.
type Ref struct {
	Name       string    // of the machine; a tag, and where the cloud has names the name of the VM
	OwnerID    string    // durable id of the machine, a tag on all that is made for it; empty accepts any
	ProviderID string    // in any known form; wins over Name when set
	Class      Class     // supplies region, endpoint and ownership tags
	State      string    // last checkpoint, empty if there was none
	Created    time.Time // of the machine object

	// Scope is what Scoper.Scope said when the VM was asked for, or first seen; empty if that is
	// not known. It is compared in package wrap, once for all clouds.
	Scope string

	// Object is the machine object, for Legacy drivers, which are handed one; zero where the
	// caller has none. What is made for the machine is never found by it.
	Object Object
}

// Object is what an object's metadata says beside its name. Its maps are never modified.
type Object struct {
	UID                 string
	Labels, Annotations map[string]string
}

// TagPrefix begins the keys of CreateRequest.Tags; the rest of a key is letters,
// digits, dots and dashes.
const TagPrefix = "mcm.cluster.x-k8s.io/"

// ClusterIDTag is the key of CreateRequest.Tags for the durable id of the Cluster API
// Cluster. Every resource that List returns, and that can keep text, has it.
const ClusterIDTag = TagPrefix + "cluster-id"

// CreateRequest describes the VM that is wanted.
type CreateRequest struct {
	Ref
	// Token is equal for all calls of one attempt at this VM and differs from
	// every other attempt's. 1 to 64 characters of [0-9a-f-].
	Token string
	// UserData is the finished boot payload. It contains secrets.
	UserData []byte
	// Zone overrides the zone of the class; empty leaves it.
	Zone string
	// Tags are added to those of the class, which win. Their keys begin with
	// TagPrefix. List returns them as they were given, where a cloud's keys are
	// encoded, too.
	Tags map[string]string
	// Network are the VM's network interfaces, in the order in which the class names their
	// networks. Those that are not in it, all of them if it is nil, get their addresses
	// from DHCP or from the cloud. More than the class has are Invalid before anything is
	// made.
	Network []Interface
	// Annotations that the machine wants on its node; MCM's drivers take settings
	// from some of them.
	Annotations map[string]string
	// Checkpoint persists the driver's note to itself, which comes back as
	// Ref.State. When it fails, the side effect must not happen. Never nil.
	Checkpoint func(ctx context.Context, state string) error
}

// VM is one VM as the cloud shows it.
type VM struct {
	ID             string // the cloud's own; empty only while ProviderID is, and nothing is made yet
	ProviderID     string // in MCM's form; empty only while Create says RetryAfter and the VM is not to be recorded yet
	NodeProviderID string // in the form that the cloud's controller manager writes onto the Node; empty until known
	Name           string // Ref.Name, from the tag; empty if there is none
	OwnerID        string // Ref.OwnerID, from the tag; empty on VMs older than us
	NodeName       string // name the node will have; empty until known

	State   State
	Reason  string // the cloud's word for State, one word
	Message string // the cloud's explanation, e.g. of a fault

	RetryAfter time.Duration // > 0: Create is not finished; call it again then

	Region, Zone, InstanceType string
	Addresses                  []Address // stable order
	Created                    time.Time
}

// State is how far a VM is. A VM that is gone has none: it is NotFound.
type State uint8

// The states of a VM.
const (
	StateUnknown State = iota
	StatePending       // accepted, not yet running
	StateRunning
	StateStopped  // exists, does not run, will not start by itself
	StateDeleting // going; will be NotFound
	StateFailed   // exists, cannot run
)

// String is the state in lower case.
func (s State) String() string {
	switch s {
	case StateUnknown:
		return "unknown"
	case StatePending:
		return "pending"
	case StateRunning:
		return "running"
	case StateStopped:
		return "stopped"
	case StateDeleting:
		return "deleting"
	case StateFailed:
		return "failed"
	}
	return "invalid"
}

// An Address is one way to reach a VM. Kind is InternalIP, ExternalIP,
// InternalDNS, ExternalDNS or Hostname.
type Address struct{ Kind, Value string }

// Deletion is how far a Delete is.
type Deletion struct {
	Done       bool
	Found      bool          // with Done: something was there when this call looked
	RetryAfter time.Duration // when it is worth asking again; 0 if Done
	Remaining  []string      // what is still there, "<kind> <id>", sorted
}

// Kind of a resource.
type Kind string

// The kinds of resources.
const (
	KindVM        Kind = "vm"
	KindInterface Kind = "interface"
	KindDisk      Kind = "disk"
	KindAddress   Kind = "address"
	KindKey       Kind = "key"
)

// Kinds are all kinds of resources.
func Kinds() []Kind { return []Kind{KindVM, KindInterface, KindDisk, KindAddress, KindKey} }

// Wants reports whether a List of these kinds yields k; no kinds are all kinds.
func Wants(kinds []Kind, k Kind) bool { return len(kinds) == 0 || slices.Contains(kinds, k) }

// Resource is a resource of the cloud that carries our ownership tags.
type Resource struct {
	Kind        Kind
	ID          string // the cloud's own
	MachineName string // from the tag; empty if there is none
	OwnerID     string // from the tag; empty on resources older than us
	Created     time.Time
	Attached    bool // part of a VM, so it goes with it
	VM          *VM  // set for KindVM
	// Retention is what becomes of a disk or an interface when its VM goes: as the cloud shows it
	// while it is attached, and else as its tag says.
	Retention Retention
	Tags      map[string]string
}

// Capacity is what a node will offer: quantities in Kubernetes' notation.
type Capacity struct {
	Resources    map[string]string // cpu, memory, pods, ephemeral-storage, gpu, …
	Architecture string            // amd64, arm64
}

package cloudtest

import (
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Harness is what a cloud shows the suite. New and the tables are the cloud's;
// everything else has a default.
type Harness struct {
	// New returns a cloud for this test alone. It is called once a case, and
	// once a part of some, and cleans up with t.Cleanup.
	New func(t testing.TB) *Fixture

	// SparseFile, relative to the test, shows what the cloud is asked for where a class leaves fields out (C48).
	SparseFile string
	// CostPage is the page, relative to the test, that shows what calls cost, counted beside 10 000 VMs of others; empty
	// counts beside few and shows nothing (C47).
	CostPage string

	// Lacks says why this cloud, or the server that stands for it, cannot show
	// a case ("C19") or a part of one ("C19/Expired"). They appear as skipped,
	// and in the matrix.
	Lacks map[string]string

	Samples     []Sample     // C01
	Rules       []Rule       // C02
	Secrets     []Secret     // C03
	Golden      *Golden      // C05
	ProviderIDs []ProviderID // C13
	Errors      []ErrorRow   // C17
	Volumes     []Volume     // C25

	// CaseSensitive is set if MCM's driver for this cloud matches JSON keys with
	// their case (C01).
	CaseSensitive bool

	// ProviderID returns the two forms of the providerID that vm must have:
	// MCM's, and the one on the Node (C13).
	ProviderID func(vm cloud.VM, c cloud.Class) (mcm, node string)

	// NodeName returns the name that the node of vm must get. Nil where
	// Traits.NodeNamed is set (C14).
	NodeName func(vm cloud.VM) string

	// Capacity is that of Fixture.Class (C27).
	Capacity cloud.Capacity

	// Concurrent is how many cases run at once; 0 is one. More are for a cloud whose
	// changes the cases wait for in real time: New has to give each its own.
	Concurrent int
	// Draws is how many of the calls at which a fault can hit a case tries, drawn again in
	// each run ([Draws]); 0 tries all. With draws no row is recorded. They are for clouds on the
	// test's own machine whose changes take seconds.
	Draws int
	// Unrecorded keeps the row out of the file of CLOUDTEST_MATRIX, where another
	// Run records that of the cloud.
	Unrecorded bool

	Parallel int           // creates at once in C30, and at most in C18; 0 is 200
	Prompt   time.Duration // longest time that one call may take; one that gives up has a tenth; 0 is 10s
	Patience time.Duration // longest real time for a change of state; 0 is 60s
}

// Fixture is one cloud and the way to it.
type Fixture struct {
	// Driver returns a driver as a new process would have it.
	Driver func() cloud.Driver

	// Class is valid. Every VM is made from it unless a case says otherwise.
	Class cloud.ClassInput

	// Others are classes at the same endpoint whose ownership tags differ from
	// those of Class, by what differs, e.g. "other cluster", "other role" (C11).
	Others map[string]cloud.ClassInput

	// Elsewhere is a class at the same endpoint with the same ownership tags whose VMs
	// come from another stock than those of Class: another instance type or zone, or,
	// where a class names neither, the same spec (C32).
	Elsewhere cloud.ClassInput
	// Memory keeps what is sold out from being asked for again, as the manager's
	// decorator wrap.Offerings does (C32).
	Memory cloud.Middleware

	// Scarce are the kinds of capacity that the cloud can be out of apart: "Spot", "Regular", "Zone", "Group" and
	// "Accelerators" (C44, C46).
	Scarce map[string]Scarcity

	// Interruptible are classes whose VMs the cloud may take away at any time, one of
	// each form that it has, by form (C33).
	Interruptible map[string]cloud.ClassInput

	// Tagged is Class with tags that may change while its VMs exist, and Retagged the same
	// with others: one that is new, one that is gone and one with another value (C36).
	Tagged, Retagged cloud.ClassInput

	// Keeping is Class with something that outlives its VMs, and something that does not (C42).
	Keeping cloud.ClassInput

	// Balanced is Class with load balancers for its VMs, and NoPlace a text like those of
	// cloud.Balancer.Memberships whose load balancer does not exist (C38).
	Balanced cloud.ClassInput
	NoPlace  string

	// ManyAddresses makes VMs with several interfaces or IP families; its zero
	// value needs a reason in Lacks["C24/Many"].
	ManyAddresses cloud.ClassInput

	// Broken is Class with everything wrong that rules out creation only: same
	// endpoint, region and ownership tags (C09).
	Broken cloud.ClassInput

	// UnknownType is Class with an instance type that does not exist (C27).
	UnknownType cloud.ClassInput

	// Credentials are valid.
	Credentials cloud.Credentials
	// Another is another account, in which nothing is (C43).
	Another Another
	// Public are the keys of Credentials whose values may appear in texts, such
	// as a URL or a user name.
	Public []string

	Backend Backend

	// Wrap is put around every account, the first innermost, as cmd does it.
	// Empty tries the bare driver.
	Wrap []cloud.Middleware
}

// Another is another account of the cloud: other credentials for the same API.
type Another struct {
	Credentials cloud.Credentials
	// Scopes compares accounts with what machines record, as the manager's decorator wrap.Scopes does it.
	Scopes cloud.Middleware
	// Class is Fixture.Class as it has to be for that account; nil is the same.
	Class *cloud.ClassInput
	// InProviderID are the forms of a providerID that name the account, so that it is refused where
	// nothing is recorded: "mcm", "node".
	InProviderID []string
}

// Backend is the cloud as its owner sees it, behind the driver's back. None of
// its functions passes the Proxy. A nil one needs a reason in Lacks.
type Backend struct {
	// Proxy is what all calls of the drivers pass.
	Proxy *Proxy

	// Ledger returns everything that is in the cloud now, of every kind and
	// owner, terminated VMs left out. MachineName and OwnerID are those of the
	// tags; VM may be nil.
	Ledger func(t testing.TB) []cloud.Resource

	// Seed puts a resource into the cloud and returns the cloud's id of it.
	Seed func(t testing.TB, s Seed) string

	// Advance lets d pass. Nil where time is real: then changes are waited for.
	Advance func(t testing.TB, d time.Duration)

	// Rest waits, where time is real, until nothing in the cloud is on its way to
	// another state, and reports whether anything was. It spares a cloud on the
	// test's own machine most questions. Nil, or false: a moment passes instead.
	Rest func(t testing.TB) bool

	// Hide keeps what is made from now on out of all reads until d after it was
	// made.
	Hide func(t testing.TB, d time.Duration)

	// UserData returns what the VM was given to boot with, decoded.
	UserData func(t testing.TB, id string) []byte

	// Network returns the configuration that the guest of the VM gets for its first interfaces,
	// at least those of the request. Only where Traits.StaticAddresses is set (C35).
	Network func(t testing.TB, id string) []cloud.Interface

	// States are the states that a VM can be brought into (C22).
	States []VMState

	// Boot returns what changes whenever the VM is started or reset: a count or a time (C37).
	Boot func(t testing.TB, id string) string

	// Console lets the guest of a VM write text, which are whole lines, to its console, where the
	// back end can, and returns all that is on the console then (C39).
	Console func(t testing.TB, id, text string) string

	// Members returns the ids of the VMs that get requests at a place in a load balancer, which
	// is a text of cloud.Balancer.Memberships: those that are registered, those whose open
	// connections are still to be closed, and those that are gone and whose members are left (C38).
	Members func(t testing.TB, place string) []string

	// SellOut makes the cloud refuse VMs of the class for lack of capacity until restore is called
	// (C41). Nil: the answer of Harness.Errors stands for the cloud's.
	SellOut func(t testing.TB) (restore func())

	// FailPart lets the next thing that an attempt makes beside its VM, or before it, be accepted and then fail (C44).
	FailPart func(t testing.TB)

	// Occupy lets somebody else have the names of what Create makes for a machine of that name, until free is
	// called (C44).
	Occupy func(t testing.TB, machine string) (free func())

	// Late keeps a part from VMs that are made from now on until arrive is called: "Network", "Disk" or "Import" (C45).
	Late map[string]func(t testing.TB) (arrive func())

	// Undecide takes from everything in the cloud what says that it stays, or goes, when its VM
	// goes, as VMs have it that were made before that was recorded (C42).
	Undecide func(t testing.TB)

	// Fail makes a VM unable to run for good, as a build fault does (C10).
	Fail func(t testing.TB, id string)

	// HideNodeName makes the cloud show a VM without what its node's name comes
	// from, e.g. the DNS name (C14).
	HideNodeName func(t testing.TB, id string)

	// Expire ends all sessions; the credentials stay valid (C19).
	Expire func(t testing.TB)

	// Revoke makes the credentials invalid (C19).
	Revoke func(t testing.TB)

	// FullPages makes pages as large as the cloud's own, where those of the tests are smaller (C47). Nil is allowed.
	FullPages func(t testing.TB)

	// PageSize is how many VMs one answer of a listing holds (C15).
	PageSize int
}

// Seed is a resource to put into the cloud.
type Seed struct {
	Kind     cloud.Kind
	Class    cloud.Class   // whose ownership tags, region and zone it gets
	Untagged bool          // without any ownership tag
	Name     string        // of the machine, in the tag; empty leaves the tag out
	OwnerID  string        // in the tag; empty leaves it out, as MCM does
	AttachTo string        // id of the VM that it is attached to; it is not deleted with that VM
	Age      time.Duration // it was made that long ago
	// Unless it is Untagged, a disk or an interface that is loose was to go with its VM, in clouds
	// whose classes can keep some.
}

// VMState is a state that the back end can bring a running VM into.
type VMState struct {
	Name string // the cloud's word
	Set  func(t testing.TB, id string)
	Want cloud.State // what Get says then; StateUnknown means NotFound
}

// Sample is a MachineClass as MCM's users have it.
type Sample struct {
	Name  string
	Class cloud.ClassInput
	// Defaulted is Class.Spec with every default that MCM fills in written out.
	// It parses to the same. Empty if there are none.
	Defaulted []byte
}

// Rule is one row of the validation table.
type Rule struct {
	Name   string
	Reason string // why it is so, with MCM's rule
	Class  cloud.ClassInput
	Field  string // that a problem names; empty means accepted
	// Severity of that problem, at least. Warning for what MCM accepts.
	Severity cloud.Severity
}

// Secret is one spelling of the credentials.
type Secret struct {
	Name        string
	Reason      string
	Credentials func(valid cloud.Credentials) cloud.Credentials
	// Missing is the field that a blocking problem names; empty means that the
	// credentials work.
	Missing string
}

// Golden is what the cloud is asked for a class that has every field set.
type Golden struct {
	File  string // relative to the test, e.g. testdata/create.golden
	Class func(f *Fixture) cloud.ClassInput
	// Smallest is a class of which C48 takes away what it can; empty is Fixture.Class.
	Smallest cloud.ClassInput
	// Normalize returns c as text without what changes from run to run, such as
	// dates, signatures and generated ids; empty leaves c out.
	Normalize func(c Call) string
}

// ProviderID is one known form of a providerID, or a foreign one.
type ProviderID struct {
	Form   string // who writes it
	Value  string
	ID     string // empty means that it is none of this cloud's
	Reason string
}

// ErrorRow is one row of the error table: what the cloud answers, and what
// comes of it.
type ErrorRow struct {
	Name   string
	Op     string // the call that meets it: create, get, delete, list or capacity
	Match  func(c Call) bool
	Reply  Reply
	Code   cloud.Code
	Reason string // Error.Reason; empty accepts any that is not empty
	After  time.Duration
	Of     *cloud.Offering // Error.Offering; nil accepts none only
}

// Volume is one row of the table of volumes.
type Volume struct {
	Name   string
	Volume cloud.Volume
	ID     string // empty means that it is none of this cloud's
}

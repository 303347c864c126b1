package sim

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"
)

// The kinds of resources.
const (
	KindVM   = "vm"
	KindDisk = "disk"
	KindNIC  = "nic"
)

// The states of a VM.
const (
	StatePending  = "pending"
	StateRunning  = "running"
	StateStopped  = "stopped"
	StateFailed   = "failed"
	StateDeleting = "deleting"
	StateGone     = "gone"
)

// NameTag is the tag that names a resource.
const NameTag = "Name"

// Resource is a VM, disk or interface, as the API shows it.
type Resource struct {
	Kind     string            `json:"kind"`
	ID       string            `json:"id"`
	Seq      uint64            `json:"seq"` // order of making
	Account  string            `json:"account"`
	Region   string            `json:"region"`
	Zone     string            `json:"zone,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	Made     time.Time         `json:"made"`
	Deleting time.Time         `json:"deleting,omitzero"` // when its end was asked for
	Gone     time.Time         `json:"gone,omitzero"`     // when it is or will be gone
	GoneBy   string            `json:"goneBy,omitempty"`  // who asked for its end: an account, or "cloud"

	VM   *VM   `json:"vm,omitempty"`
	Disk *Disk `json:"disk,omitempty"`
	NIC  *NIC  `json:"nic,omitempty"`

	token     string // of the call that made it
	tokenHash string // of that call's other parameters
	userData  []byte
}

// VM is the part of a Resource that only VMs have.
type VM struct {
	InstanceType string    `json:"instanceType"`
	Image        string    `json:"image"`
	Spot         bool      `json:"spot,omitempty"`
	State        string    `json:"state"`             // as of now
	Reason       string    `json:"reason,omitempty"`  // one word for State
	Message      string    `json:"message,omitempty"` // explains Reason
	Running      time.Time `json:"running"`           // when it runs or will run
	Stopped      bool      `json:"stopped,omitempty"`
	Failed       bool      `json:"failed,omitempty"`
	Boots        int       `json:"boots,omitempty"`      // after the first
	Forwarding   bool      `json:"forwarding,omitempty"` // may forward what is not addressed to it
	Disks        []string  `json:"disks,omitempty"`
	NICs         []string  `json:"nics,omitempty"`
	Networks     []string  `json:"networks,omitempty"`  // of NICs, in their order
	Addresses    []Address `json:"addresses,omitempty"` // of NICs, in their order

	Memberships []Membership `json:"memberships,omitempty"` // in load balancers
	// DeletedRegistered is set if its end was asked for while it was registered with a load
	// balancer, which so lost requests.
	DeletedRegistered bool `json:"deletedRegistered,omitempty"`
}

// Membership is a VM's place in a load balancer.
type Membership struct {
	LoadBalancer string    `json:"loadBalancer"`
	Port         int       `json:"port"`
	Draining     time.Time `json:"draining,omitzero"` // until when open connections are kept; zero: it gets requests
}

// Disk is the part of a Resource that only disks have.
type Disk struct {
	SizeGiB      int    `json:"sizeGiB"`
	Type         string `json:"type,omitempty"`
	VM           string `json:"vm,omitempty"`   // what it is attached to
	Keep         bool   `json:"keep,omitempty"` // as it was asked for: it stays when its VM goes
	Used         bool   `json:"used,omitempty"` // of a disk that is kept: it was made for a VM that was made
	DeleteWithVM bool   `json:"deleteWithVM,omitempty"`
}

// NIC is the part of a Resource that only network interfaces have.
type NIC struct {
	Network   string    `json:"network"`
	VM        string    `json:"vm,omitempty"` // what it is attached to
	Addresses []Address `json:"addresses"`
	Static    *Static   `json:"static,omitempty"` // what it was made with; never modified
}

// Address is one way to reach a VM; Kind as in cloud.Address.
type Address struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// Name is the value of the name tag.
func (r *Resource) Name() string { return r.Tags[NameTag] }

// attachedTo is the id of the VM that r is part of; empty for none.
func (r *Resource) attachedTo() string {
	switch {
	case r.Disk != nil:
		return r.Disk.VM
	case r.NIC != nil:
		return r.NIC.VM
	}
	return ""
}

// goneAt reports whether r does not exist any more.
func (r *Resource) goneAt(now time.Time) bool { return !r.Gone.IsZero() && !now.Before(r.Gone) }

// stateAt is the state of a VM, which follows from the time.
func (r *Resource) stateAt(now time.Time) string {
	switch {
	case r.goneAt(now):
		return StateGone
	case !r.Deleting.IsZero():
		return StateDeleting
	case r.VM.Failed:
		return StateFailed
	case r.VM.Stopped:
		return StateStopped
	case now.Before(r.VM.Running):
		return StatePending
	}
	return StateRunning
}

// clone returns a copy that shares nothing with r but the user data, which
// is never modified.
func (r *Resource) clone() Resource {
	out := *r
	out.Tags = maps.Clone(r.Tags)
	if r.VM != nil {
		vm := *r.VM
		vm.Disks, vm.NICs = slices.Clone(vm.Disks), slices.Clone(vm.NICs)
		vm.Networks, vm.Addresses = slices.Clone(vm.Networks), slices.Clone(vm.Addresses)
		vm.Memberships = slices.Clone(vm.Memberships)
		out.VM = &vm
	}
	if r.Disk != nil {
		disk := *r.Disk
		out.Disk = &disk
	}
	if r.NIC != nil {
		nic := *r.NIC
		nic.Addresses = slices.Clone(nic.Addresses)
		out.NIC = &nic
	}
	return out
}

// goneHeap holds resources whose end is known, the next to go first.
type goneHeap []*Resource

func (h *goneHeap) push(r *Resource) { heap.Push((*goneOrder)(h), r) }

func (h *goneHeap) pop() *Resource { return heap.Pop((*goneOrder)(h)).(*Resource) }

// goneOrder is what package container/heap needs to see of a goneHeap. A VM
// goes before the parts that were made after it.
type goneOrder []*Resource

func (h goneOrder) Len() int      { return len(h) }
func (h goneOrder) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h goneOrder) Less(i, j int) bool {
	if !h[i].Gone.Equal(h[j].Gone) {
		return h[i].Gone.Before(h[j].Gone)
	}
	return h[i].Seq < h[j].Seq
}
func (h *goneOrder) Push(x any) { *h = append(*h, x.(*Resource)) }
func (h *goneOrder) Pop() any {
	old := *h
	last := len(old) - 1
	out := old[last]
	old[last] = nil
	*h = old[:last]
	return out
}

// sortedBySeq sorts resources by the order of making, in place.
func sortedBySeq(all []*Resource) []*Resource {
	slices.SortFunc(all, func(a, b *Resource) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

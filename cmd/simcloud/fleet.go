package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// fleet plays the kubelets of all VMs. A VM is looked at when it changes and
// when something of it is due: one queue with a heap of due times, and a few
// workers, so that an idle VM costs nothing but its entry.
type fleet struct {
	options kubeletOptions
	cloud   *sim.Cloud
	client  kubernetes.Interface // nil: VMs only join
	joiner  *joiner
	queue   workqueue.TypedDelayingInterface[string] // ids of VMs
	pods    *pods                                    // nil without client

	mu      sync.Mutex
	kubelet map[string]*kubelet // by id of the VM
	nodes   map[string]*kubelet // those that have joined, by name of the node
}

// kubelet is the one of a VM. Only the worker that has the VM changes it, with
// the fleet's lock held where others read it.
type kubelet struct {
	id, nodeName string
	nodeUID      types.UID
	providerID   string

	booted   bool // user data was read
	boots    int  // of the VM, as far as the kubelet knows
	boot     bootData
	over     behaviour // set by hand
	due      time.Time // of the next attempt to join
	attempts int
	tried    bool      // there may be a Node of it
	joined   time.Time // zero until then
	running  bool      // the VM runs, and so does the kubelet
	shown    map[corev1.NodeConditionType]corev1.ConditionStatus
	leaseDue time.Time
	lookDue  time.Time // of the next look at the Node
	leased   bool
}

func newFleet(o kubeletOptions, client kubernetes.Interface) *fleet {
	f := &fleet{
		options: o, client: client, joiner: newJoiner(), kubelet: map[string]*kubelet{}, nodes: map[string]*kubelet{},
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Name: "kubelets"}),
	}
	if client != nil {
		f.pods = newPods(f, client, o.podGrace)
	}
	return f
}

// changed is told of every change in the cloud.
func (f *fleet) changed(r sim.Resource) {
	if r.VM != nil {
		f.queue.Add(r.ID)
	}
}

// run plays until ctx ends.
func (f *fleet) run(ctx context.Context) {
	for _, vm := range f.cloud.VMs() {
		f.inherit(vm)
	}
	var workers sync.WaitGroup
	if f.pods != nil {
		workers.Go(func() { f.pods.run(ctx, f.options.workers) })
		workers.Go(func() { f.findLeftovers(ctx) })
	}
	for range f.options.workers {
		workers.Go(func() { f.work(ctx) })
	}
	<-ctx.Done()
	f.queue.ShutDown()
	workers.Wait()
}

// inherit takes over a VM that an earlier process played the kubelet of.
func (f *fleet) inherit(vm sim.Resource) {
	k := f.of(vm)
	_, data, _ := f.cloud.Look(vm.ID)
	f.mu.Lock()
	k.tried = true
	if boot, err := readBootData(data); err == nil && boot.NodeName != "" {
		k.nodeName = boot.NodeName
	}
	f.mu.Unlock()
	f.queue.Add(vm.ID)
}

func (f *fleet) work(ctx context.Context) {
	for {
		id, shutdown := f.queue.Get()
		if shutdown {
			return
		}
		if again := f.sync(ctx, id); again > 0 {
			f.queue.AddAfter(id, again)
		}
		f.queue.Done(id)
	}
}

// sync does for a VM what is due, and returns when the next thing is; 0 is when
// the VM changes.
func (f *fleet) sync(ctx context.Context, id string) time.Duration {
	r, data, ok := f.cloud.Look(id)
	if !ok || r.VM == nil {
		return 0
	}
	k := f.of(r)
	now := time.Now()
	f.set(k, r.VM.State == sim.StateRunning)
	switch r.VM.State {
	case sim.StatePending:
		return max(r.VM.Running.Sub(now), time.Millisecond)
	case sim.StateRunning:
		return f.live(ctx, k, r, data)
	case sim.StateDeleting:
		return max(r.Gone.Sub(now), time.Millisecond)
	case sim.StateGone:
		return f.bury(ctx, k)
	}
	return 0
}

// of returns the kubelet of a VM.
func (f *fleet) of(r sim.Resource) *kubelet {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.kubelet[r.ID]
	if k == nil {
		k = &kubelet{boots: r.VM.Boots, id: r.ID, nodeName: r.Name(), providerID: sim.ProviderID(r.Zone, r.ID)}
		if r.VM.State != sim.StateGone {
			f.kubelet[r.ID] = k
		}
	}
	return k
}

// set notes whether a kubelet runs.
func (f *fleet) set(k *kubelet, running bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k.running = running
}

// live is one look of a running kubelet at what it has to do.
func (f *fleet) live(ctx context.Context, k *kubelet, r sim.Resource, data []byte) time.Duration {
	if !k.booted {
		f.boot(k, data)
	}
	f.reboot(k, r.VM.Boots)
	how := f.behaviour(k)
	if k.joined.IsZero() {
		return f.join(ctx, k, r, how)
	}
	if f.client == nil {
		return 0
	}
	wait, err := f.show(ctx, k, how)
	if err != nil {
		return f.complain(k, "Cannot report the node's conditions", err)
	}
	next, err := f.renew(ctx, k, how)
	if err != nil {
		return f.complain(k, "Cannot renew the node's lease", err)
	}
	return soonest(wait, next)
}

// boot reads the user data.
func (f *fleet) boot(k *kubelet, data []byte) {
	boot, err := readBootData(data)
	f.mu.Lock()
	k.booted, k.boot = true, boot
	if boot.NodeName != "" {
		k.nodeName = boot.NodeName
	}
	if err != nil {
		k.boot.Join = new(string)
		*k.boot.Join = joinNever
	}
	f.mu.Unlock()
	if err != nil {
		f.print(k, "The node does not join: "+err.Error())
		return
	}
	f.print(k, "Booted")
	k.due = time.Now().Add(boot.joinDelay())
}

// reboot forgets what was set by hand, unless that is to outlast a reboot, and lets the kubelet
// show all conditions again.
func (f *fleet) reboot(k *kubelet, boots int) {
	f.mu.Lock()
	rebooted := k.boots != boots
	k.boots = boots
	if rebooted && (k.over.Lasting == nil || !*k.over.Lasting) {
		k.over = behaviour{}
	}
	f.mu.Unlock()
	if rebooted {
		clear(k.shown)
		f.print(k, "Rebooted")
	}
}

// behaviour is how a kubelet does, with what was set by hand.
func (f *fleet) behaviour(k *kubelet) behaviour {
	f.mu.Lock()
	defer f.mu.Unlock()
	return k.boot.merged(k.over)
}

// print writes onto the VM's console.
func (f *fleet) print(k *kubelet, text string) { f.cloud.Print(k.id, text) }

// complain logs what went wrong and returns when to try again.
func (f *fleet) complain(k *kubelet, what string, err error) time.Duration {
	const retry = time.Second
	f.print(k, what+": "+err.Error())
	slog.Debug(what, "vm", k.id, "node", k.nodeName, "error", err)
	return retry
}

// soonest is the shorter of two waits, of which 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

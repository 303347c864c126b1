package mcmmachine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// When a VM that the cloud does not show counts as gone: after that many looks
// for it, over at least that time, or the cloud's settle time if that is longer.
const (
	missesUntilGone    = 3
	missingFor         = time.Minute
	missingVMCheck     = 20 * time.Second
	unhealthyNodeCheck = time.Minute      // while the Node is away or unhealthy
	healthyNodeCheck   = 10 * time.Minute // also after an error that time alone is unlikely to end
	addressGrace       = 5 * time.Minute  // a VM that runs for longer without an address has none
)

// checkVM asks the cloud what became of the VM, and never makes another.
func (c *Controller) checkVM(ctx context.Context, p *pass) error {
	if p.seen.classErr != nil {
		return p.seen.classErr
	}
	if err := p.seen.class.Err(cloud.BlocksAll); err != nil {
		requeueAfter(p, healthyNodeCheck)
		return c.callFailed(p, err)
	}
	found, due, err := c.find(ctx, p)
	if cloud.CodeOf(err) == cloud.NotFound {
		c.callSucceeded(p)
		return c.vmNotFound(p, p.seen.class.Driver.Traits().Settle, err)
	}
	if err != nil {
		requeueAfter(p, healthyNodeCheck)
		return c.callFailed(p, err)
	}
	c.callSucceeded(p)
	c.updateLookups(p.object, func(n *lookups) { n.missing, n.misses = time.Time{}, 0 })
	p.did.vm, p.did.complete = &found, true
	if err := c.recordIdentity(ctx, p, found); err != nil {
		return err
	}
	c.reportVMState(p, found)
	requeueAfter(p, due)
	return nil
}

// find returns the VM and when to look again: from the listing that all machines
// of the account share, else by a lookup of this one VM.
func (c *Controller) find(ctx context.Context, p *pass) (cloud.VM, time.Duration, error) {
	r, period := p.seen.class, period(p)
	id, ok := r.Driver.DecodeProviderID(p.object.Spec.ProviderID)
	if !ok && p.object.Spec.ProviderID != "" {
		return cloud.VM{}, 0, cloud.Worst("find VM", []cloud.Problem{{
			Severity: cloud.BlocksAll, Field: "spec.providerID",
			Message: fmt.Sprintf("%q is not a providerID of provider %s; delete this MCMMachine and create it with "+
				"a valid one, or with none",
				p.object.Spec.ProviderID, r.Driver.Traits().Name),
		}}, cloud.BlocksAll)
	}
	born := c.updateLookups(p.object, func(*lookups) {}).born
	if ok {
		l, err := c.listings.get(ctx, r, p.seen.now.Add(-period+time.Nanosecond), born)
		if err != nil {
			return cloud.VM{}, 0, err
		}
		if found, there := l.vms[id]; there {
			return found, max(l.read.Add(period).Sub(p.seen.now), time.Second), nil
		}
	}
	found, err := c.engine.Get(ctx, c.vm(p))
	return found, period, err
}

// period is how often the VM is looked at: seldom while its Node is well, which
// proves more than the cloud's API.
func period(p *pass) time.Duration {
	switch {
	case !provisioned(p.object):
		return pendingVMCheck
	case nodeUnhealthy(p.seen.machine):
		return unhealthyNodeCheck
	}
	return healthyNodeCheck
}

// nodeUnhealthy reports whether the Node has not joined, or is not known to be healthy.
func nodeUnhealthy(m *clusterv1.Machine) bool {
	if !m.Status.NodeRef.IsDefined() {
		return true
	}
	healthy := conditions.Get(m, clusterv1.MachineNodeHealthyCondition)
	return healthy != nil && healthy.Status == metav1.ConditionFalse
}

// nodeHealthy reports whether the Node is known to be healthy: its VM runs then, whatever
// the cloud shows.
func nodeHealthy(m *clusterv1.Machine) bool {
	return m.Status.NodeRef.IsDefined() && conditions.IsTrue(m, clusterv1.MachineNodeHealthyCondition)
}

// recordIdentity records of which class an adopted VM is, and what was learnt about the
// VM's id: one that was lost, or that
// was written in a form that its Node does not carry, while no other object has it.
func (c *Controller) recordIdentity(ctx context.Context, p *pass, found cloud.VM) error {
	c.engine.Seen(ctx, c.vm(p), found)
	if p.object.Annotations[infrav1.MadeFromAnnotation] == "" || p.did.scope != "" {
		err := c.patch(ctx, p, func(o *infrav1.MCMMachine) {
			machinev1.SetAnnotation(o, infrav1.MadeFromAnnotation, className(o))
			machinev1.SetOrRemoveAnnotation(o, machinev1.CloudScopeAnnotation, cmp.Or(p.did.scope, c.vm(p).State.Account))
		})
		if err != nil {
			return fmt.Errorf("record class and account: %w", err)
		}
	}
	was, is := p.object.Spec.ProviderID, found.NodeProviderID
	if is == "" || was == is || !rewritable(p, is) {
		return nil
	}
	if err := c.patch(ctx, p, func(o *infrav1.MCMMachine) { o.Spec.ProviderID = is }); err != nil {
		return fmt.Errorf("record VM %s: %w", is, err)
	}
	if was != "" {
		warn(p, eventRewritten, fmt.Sprintf("spec.providerID was %s and is now %s: the Node carries that form; correct "+
			"what else names the VM by the former one", was, is))
	}
	return nil
}

// rewritable reports whether no other object relies on spec.providerID.
func rewritable(p *pass, is string) bool {
	if provisioned(p.object) && p.object.Spec.ProviderID != "" {
		return false
	}
	return p.seen.machine.Spec.ProviderID == "" || p.seen.machine.Spec.ProviderID == is
}

// vmNotFound notes that the cloud shows no VM. It counts as gone only when it was
// looked for several times over some time, and its Node is not healthy: a cloud from whose
// credentials a permission was taken may answer with an empty list instead of an error.
func (c *Controller) vmNotFound(p *pass, settle time.Duration, cause error) error {
	n := c.updateLookups(p.object, func(n *lookups) {
		if n.missing.IsZero() {
			n.missing = p.seen.now
		}
		n.misses++
	})
	if n.misses < missesUntilGone || p.seen.now.Sub(n.missing) < max(missingFor, settle) {
		requeueAfter(p, missingVMCheck)
		// A process that has just begun to look knows less than the status does.
		if !provisioned(p.object) && !reportedGone(p.object) {
			p.did.vmCondition = conditionFalse(machinev1.ReasonVMNotFound, "VM not found, looking again: "+cause.Error())
		}
		return nil
	}
	if provisioned(p.object) && nodeHealthy(p.seen.machine) {
		p.did.vmCondition = &condition{metav1.ConditionTrue, infrav1.ReasonProvisioned, fmt.Sprintf(
			"The cloud does not show VM %s, and its Node is healthy; check what the credentials may list and read",
			p.object.Spec.ProviderID)}
		requeueAfter(p, unhealthyNodeCheck)
		return nil
	}
	p.did.vmCondition = conditionFalse(infrav1.ReasonInstanceNotFound, fmt.Sprintf(
		"VM %s no longer exists and is not created again; delete the Machine, or let a MachineHealthCheck replace it",
		p.object.Spec.ProviderID))
	requeueAfter(p, healthyNodeCheck)
	return nil
}

// reportedGone reports whether the VM was found to be gone before.
func reportedGone(o *infrav1.MCMMachine) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, infrav1.VMProvisionedCondition)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == infrav1.ReasonInstanceNotFound
}

// reportVMState reports the VM's state, and when to look again while it is not final.
func (c *Controller) reportVMState(p *pass, found cloud.VM) {
	switch found.State {
	case cloud.StateStopped:
		p.did.vmCondition = conditionFalse(machinev1.ReasonVMStopped, vm.StateMessage("VM stopped", found))
	case cloud.StateFailed:
		p.did.vmCondition = conditionFalse(machinev1.ReasonVMFailed, vm.StateMessage("VM failed", found))
	case cloud.StateDeleting:
		p.did.vmCondition = conditionFalse(infrav1.ReasonInstanceDeleting,
			vm.StateMessage("VM is being deleted by something other than this controller", found))
	case cloud.StatePending, cloud.StateRunning, cloud.StateUnknown:
		if !provisioned(p.object) && !hasAddresses(p) {
			p.did.vmCondition = conditionFalse(infrav1.ReasonWaitingForAddresses, "The VM has no address yet")
			requeueAfter(p, pendingVMCheck)
			return
		}
		p.did.vmCondition = conditionTrue(infrav1.ReasonProvisioned)
	}
	requeueAfter(p, period(p))
}

// hasAddresses reports whether the VM can be reported as provisioned: its addresses are known, or
// it has been running for so long that it will not get any.
func hasAddresses(p *pass) bool {
	if len(p.did.vm.Addresses) > 0 {
		return true
	}
	created := p.did.vm.Created
	return p.did.vm.State == cloud.StateRunning && !created.IsZero() && p.seen.now.Sub(created) > addressGrace
}

const (
	// sharedAge is how old a listing may be that several callers share.
	sharedAge = 15 * time.Second
	// failedAge is how long a listing that failed stands for those who ask next: an
	// account that is refused or throttled is not asked once for each machine.
	failedAge = 30 * time.Second
)

// vmListings remembers the last listing of each account's VMs, by id, so that
// thousands of machines that check theirs within a period of minutes cost one call.
// It does not replace wrap.SharedListing, which all calls pass: that one coalesces
// calls at the same time, for seconds, gives each caller a copy of every VM, and
// asks again after a failure.
type vmListings struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	last map[string]listing
}

// listing is what one listing showed.
type listing struct {
	read time.Time           // when it was asked for
	asOf time.Time           // what was there then is in it
	vms  map[string]cloud.VM // by the cloud's id
	err  error               // why there are none; nil if there are
}

func newVMListings(c clock.PassiveClock) *vmListings {
	return &vmListings{clock: c, last: map[string]listing{}}
}

// get returns a listing that was read since then, and that shows what was there
// at asOf. It asks the cloud if there is none.
func (s *vmListings) get(ctx context.Context, r class.Resolved, since, asOf time.Time) (listing, error) {
	key, now := listingKey(r), s.clock.Now()
	l, ok := s.cached(key)
	switch {
	case ok && l.err != nil && now.Sub(l.read) < failedAge:
		return l, l.err
	case ok && l.err == nil && !l.read.Before(since) && !l.asOf.Before(asOf):
		return l, nil
	}
	l = read(ctx, r, now, asOf)
	s.put(key, l)
	return l, l.err
}

// read asks the cloud for all VMs of the account.
func read(ctx context.Context, r class.Resolved, now, asOf time.Time) listing {
	l := listing{read: now, asOf: now.Add(-sharedAge), vms: map[string]cloud.VM{}}
	if asOf.After(l.asOf) {
		l.asOf = asOf
		ctx = cloud.NotBefore(ctx, asOf)
	}
	account, err := r.Account(ctx)
	if err != nil {
		return listing{read: now, err: err}
	}
	for found, err := range account.List(ctx, r.Class, cloud.KindVM) {
		if err != nil {
			return listing{read: now, err: err}
		}
		if found.VM != nil {
			l.vms[found.ID] = *found.VM
		}
	}
	return l
}

func (s *vmListings) cached(key string) (listing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.last[key]
	return l, ok
}

// put keeps a listing, and forgets those that were not asked for in hours,
// e.g. because the credentials were rotated.
func (s *vmListings) put(key string, l listing) {
	const idle = 2 * time.Hour
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[key] = l
	for k, other := range s.last {
		if l.read.Sub(other.read) > idle {
			delete(s.last, k)
		}
	}
}

// listingKey is equal for classes whose account and listing are the same.
func listingKey(r class.Resolved) string {
	return strings.Join([]string{
		r.Driver.Traits().Name, r.Class.Endpoint, r.Class.Owner, r.Class.Region,
		r.Credentials.Fingerprint(),
	}, "\x00")
}

package mcmmachine

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// poolAddress is an address that spec.network wants from a pool, as the pass has read it.
type poolAddress struct {
	device  int // that gets it
	pool    infrav1.IPPoolReference
	name    string                 // of the IPAddressClaim
	claim   *ipamv1.IPAddressClaim // nil: there is none
	address *ipamv1.IPAddress      // that the claim names; nil: there is none yet
}

// claimName is the name of the claim of a pool of a device. [ofClaim] finds the machine by it.
func claimName(machine string, device, pool int) string {
	return fmt.Sprintf("%s-%d-%d", machine, device, pool)
}

// observeAddresses reads what became of each address that o wants from a pool. The name
// of a claim follows from the spec, which cannot change, so that no second claim is made.
func (c *Controller) observeAddresses(ctx context.Context, o *infrav1.MCMMachine) ([]poolAddress, error) {
	var all []poolAddress
	for i, device := range o.Spec.Network.Devices {
		for j, pool := range device.AddressesFromPools {
			a := poolAddress{device: i, pool: pool, name: claimName(o.Name, i, j)}
			if err := c.readAddress(ctx, o.Namespace, &a); err != nil {
				return nil, err
			}
			all = append(all, a)
		}
	}
	return all, nil
}

func (c *Controller) readAddress(ctx context.Context, namespace string, a *poolAddress) error {
	if !c.IPAM {
		return nil
	}
	claim, address := &ipamv1.IPAddressClaim{}, &ipamv1.IPAddress{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: a.name}, claim)
	if err != nil {
		return ignoreNotFound("read IPAddressClaim", a.name, err)
	}
	a.claim = claim
	name := claim.Status.AddressRef.Name
	if name == "" {
		return nil
	}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, address); err != nil {
		return ignoreNotFound("read IPAddress", name, err)
	}
	a.address = address
	return nil
}

func ignoreNotFound(what, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, name, err)
}

// claimAddresses makes an IPAddressClaim for each address that spec.network wants from a
// pool. Once the VM has been asked for, it only reports what becomes of the claims: the
// VM keeps the addresses that it was created with.
func (c *Controller) claimAddresses(ctx context.Context, p *pass) error {
	requested := p.object.Annotations[infrav1.IPAddressesAnnotation]
	if len(p.seen.addresses) == 0 || requested == "" && p.object.Spec.ProviderID != "" {
		return nil // an adopted VM has the addresses that it has
	}
	if !c.IPAM {
		p.did.addressCondition = conditionFalse(infrav1.ReasonIPAMNotServed,
			"spec.network names IP pools, and the API server did not serve the IPAM kinds of Cluster API (ipaddressclaims "+
				"and ipaddresses of "+ipamv1.GroupVersion.String()+") when the manager started; install them and restart it")
		return nil
	}
	if requested == "" {
		if p.did.addressCondition = refusesAddresses(p); p.did.addressCondition != nil {
			return nil
		}
		if err := c.createClaims(ctx, p); err != nil || p.did.addressCondition != nil {
			return err
		}
	}
	p.did.network, p.did.addressCondition = claimedNetwork(p, requested) // claims and addresses are watched
	return nil
}

// refusesAddresses is why no address is claimed; nil: it is.
func refusesAddresses(p *pass) *condition {
	if !p.seen.cluster.DeletionTimestamp.IsZero() || !p.seen.machine.DeletionTimestamp.IsZero() {
		return conditionFalse(infrav1.ReasonWaitingForIPAddresses,
			"Cluster or Machine is being deleted: no address is claimed")
	}
	if p.seen.classErr != nil || p.seen.class.Err(cloud.BlocksCreate) != nil {
		return conditionFalse(infrav1.ReasonWaitingForIPAddresses,
			"No address is claimed before MachineClass "+p.usedClass()+" can be used")
	}
	if err := vm.CheckStaticAddresses(p.seen.class); err != nil {
		return conditionFalse(infrav1.ReasonNoStaticAddresses, err.Error())
	}
	return nil
}

// createClaims makes the claims that are missing.
func (c *Controller) createClaims(ctx context.Context, p *pass) error {
	for _, a := range p.seen.addresses {
		if a.claim != nil {
			continue
		}
		err := c.Client.Create(ctx, claimFor(p, a))
		switch {
		case err == nil, apierrors.IsAlreadyExists(err): // its arrival in the cache wakes the machine
		default:
			p.did.addressCondition = conditionFalse(infrav1.ReasonIPAddressClaimFailed, "IPAddressClaim "+a.name+
				" could not be created: "+err.Error())
			return fmt.Errorf("create IPAddressClaim %s: %w", a.name, err)
		}
	}
	return nil
}

// claimFor is the claim of a machine. It has no owner reference: a deletion of the machine
// in the foreground, or of its Cluster, would make the garbage collector delete the claim
// while the VM runs. So its annotation shows whose it is, which survives a restore, and its
// label makes clusterctl move it, together with the IPAddress that it owns.
func claimFor(p *pass, a poolAddress) *ipamv1.IPAddressClaim {
	return &ipamv1.IPAddressClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.object.Namespace, Name: a.name,
			Labels:      map[string]string{clusterv1.ClusterNameLabel: p.seen.cluster.Name, capi.MoveHierarchyLabel: ""},
			Annotations: map[string]string{machinev1.OwnerIDAnnotation: machinev1.OwnerID(p.object)},
		},
		Spec: ipamv1.IPAddressClaimSpec{ClusterName: p.seen.cluster.Name, PoolRef: poolRef(a)},
	}
}

// ownsClaim reports whether a claim was made for o.
func ownsClaim(o *infrav1.MCMMachine, claim *ipamv1.IPAddressClaim) bool {
	return claim.Annotations[machinev1.OwnerIDAnnotation] == machinev1.OwnerID(o)
}

func poolRef(a poolAddress) ipamv1.IPPoolReference {
	return ipamv1.IPPoolReference{APIGroup: a.pool.APIGroup, Kind: a.pool.Kind, Name: a.pool.Name}
}

// claimedNetwork is what the VM is asked for with, once all addresses are there.
// requested are those that it was asked for with before, empty if it was not.
func claimedNetwork(p *pass, requested string) ([]cloud.Interface, *condition) {
	if missing := missingAddress(p, requested); missing != nil {
		return nil, missing
	}
	network, done := networkOf(p)
	if is := recordOf(network); requested != "" && network != nil && is != requested {
		return nil, lost("the IPAddressClaims have "+is+" now", requested)
	}
	return network, done
}

// missingAddress is why not all addresses are there; nil: they are.
func missingAddress(p *pass, requested string) *condition {
	look, failed := unfulfilled, func(wrong string) *condition {
		return conditionFalse(infrav1.ReasonIPAddressClaimFailed, wrong)
	}
	if requested != "" {
		look, failed = lostClaim, func(wrong string) *condition { return lost(wrong, requested) }
	}
	var without, pools []string
	for _, a := range p.seen.addresses {
		wrong, pending := look(p.object, a)
		if wrong != "" {
			return failed(wrong)
		}
		if pending {
			without = append(without, a.name)
			pools = append(pools, fmt.Sprintf("%s.%s %s", a.pool.Kind, a.pool.APIGroup, a.pool.Name))
		}
	}
	claims := "IPAddressClaims " + strings.Join(without, ", ")
	switch {
	case len(without) == 0:
		return nil
	case requested != "":
		return conditionFalse(infrav1.ReasonWaitingForIPAddresses, claims+" name no IPAddress; the VM keeps "+requested)
	}
	return conditionFalse(infrav1.ReasonWaitingForIPAddresses, claims+" have no address yet; check that the IPAM "+
		"provider runs and that its pools exist: "+strings.Join(pools, ", "))
}

// lost is the condition of a machine whose VM has addresses that may go to others.
func lost(what, requested string) *condition {
	return conditionFalse(infrav1.ReasonIPAddressLost, "The VM was created with "+requested+", and "+what+
		"; nothing is claimed again for a VM that may run. Delete the Machine, so that its replacement gets addresses of "+
		"its own")
}

// unfulfilled is what is wrong with a claim whose address is waited for, or whether it
// has none yet.
func unfulfilled(o *infrav1.MCMMachine, a poolAddress) (wrong string, pending bool) {
	switch {
	case a.claim == nil, !a.claim.DeletionTimestamp.IsZero():
		return "", true // another one follows when it has gone
	case !ownsClaim(o, a.claim):
		return "IPAddressClaim " + a.name + " belongs to another object; delete it, or give the Machine another name", false
	case a.claim.Spec.PoolRef != poolRef(a):
		return fmt.Sprintf("IPAddressClaim %s asks pool %s for an address, not %s; delete it", a.name,
			a.claim.Spec.PoolRef.Name, a.pool.Name), false
	case a.claim.Status.AddressRef.Name == "":
		return refusedByProvider(a), true
	}
	return "", a.address == nil
}

// lostClaim is what became of a claim whose address the VM was asked for with, or whether
// that is not known: clusterctl does not move the status of claims.
func lostClaim(o *infrav1.MCMMachine, a poolAddress) (wrong string, pending bool) {
	switch {
	case a.claim == nil:
		return "IPAddressClaim " + a.name + " does not exist any more", false
	case !a.claim.DeletionTimestamp.IsZero():
		return "IPAddressClaim " + a.name + " is being deleted", false
	case !ownsClaim(o, a.claim):
		return "IPAddressClaim " + a.name + " belongs to another object", false
	case a.claim.Status.AddressRef.Name == "":
		return "", true
	case a.address == nil:
		return "IPAddress " + a.claim.Status.AddressRef.Name + " does not exist any more", false
	}
	return "", false
}

// refusedByProvider is what the IPAM provider says of a claim that it cannot fulfil.
func refusedByProvider(a poolAddress) string {
	ready := meta.FindStatusCondition(a.claim.Status.Conditions, ipamv1.IPAddressClaimReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionFalse {
		return ""
	}
	return fmt.Sprintf("IPAddressClaim %s gets no address from pool %s: %s: %s", a.name, a.pool.Name, ready.Reason,
		ready.Message)
}

// networkOf is what the VM is asked for with, once all addresses are there. A value that
// is none is a failure of the claim, as the condition says.
func networkOf(p *pass) ([]cloud.Interface, *condition) {
	out := make([]cloud.Interface, len(p.object.Spec.Network.Devices))
	for i, device := range p.object.Spec.Network.Devices {
		for _, text := range device.Nameservers {
			server, err := netip.ParseAddr(text)
			if err != nil {
				return nil, conditionFalse(infrav1.ReasonIPAddressClaimFailed, fmt.Sprintf(
					"spec.network.devices[%d].nameservers: %s; write IP addresses into a new MCMMachineTemplate", i, err))
			}
			out[i].Nameservers = append(out[i].Nameservers, server)
		}
		out[i].SearchDomains = device.SearchDomains
	}
	for _, a := range p.seen.addresses {
		static, err := staticAddress(a.address.Spec)
		if err != nil {
			return nil, conditionFalse(infrav1.ReasonIPAddressClaimFailed, fmt.Sprintf(
				"IPAddress %s cannot be used: %s; correct pool %s and delete IPAddressClaim %s", a.address.Name, err, a.pool.Name,
				a.name))
		}
		out[a.device].Addresses = append(out[a.device].Addresses, static)
	}
	return out, conditionTrue(infrav1.ReasonIPAddressesClaimed)
}

func staticAddress(s ipamv1.IPAddressSpec) (cloud.StaticAddress, error) {
	var out cloud.StaticAddress
	address, err := netip.ParseAddr(s.Address)
	if err != nil {
		return out, err
	}
	if s.Prefix == nil {
		return out, fmt.Errorf("%s has no prefix", address)
	}
	if out.Prefix = netip.PrefixFrom(address, int(*s.Prefix)); !out.Prefix.IsValid() {
		return out, fmt.Errorf("%s has the invalid prefix %d", address, *s.Prefix)
	}
	if s.Gateway == "" {
		return out, nil
	}
	if out.Gateway, err = netip.ParseAddr(s.Gateway); err == nil && out.Gateway.Is4() != address.Is4() {
		err = fmt.Errorf("gateway %s is of another family than %s", out.Gateway, address)
	}
	return out, err
}

// recordOf are the addresses of a request, as the annotation of the intent keeps them.
func recordOf(network []cloud.Interface) string {
	var all []string
	for _, n := range network {
		for _, a := range n.Addresses {
			all = append(all, a.Prefix.String())
		}
	}
	return strings.Join(all, ",")
}

// waitsForAddresses is why the VM cannot be asked for yet; nil: its addresses are there,
// or it wants none.
func waitsForAddresses(p *pass) *condition {
	switch {
	case len(p.seen.addresses) == 0, p.did.network != nil:
		return nil
	case p.did.addressCondition == nil:
		return conditionFalse(infrav1.ReasonWaitingForIPAddresses, "No address has been claimed")
	}
	return p.did.addressCondition
}

// releaseAddresses deletes the claims of a machine whose VM has gone, and reports whether
// none is left that it has to handle. The claims of a VM that stays, stay: another VM could
// get the address of one that runs. No garbage collector deletes claims, so they are read from
// the API server: the cache may not show one that was created a moment ago.
func (c *Controller) releaseAddresses(ctx context.Context, p *pass) (bool, error) {
	if !c.IPAM {
		return !claimsUnreachable(p), nil
	}
	if wait := c.claimsInFlight(p); wait > 0 {
		p.did.deletionWaitsFor = conditionFalse(infrav1.ReasonDeleting,
			"An IPAddressClaim that was requested may still be created; its deletion is tried then")
		requeueAfter(p, wait)
		return false, nil
	}
	for _, a := range p.seen.addresses {
		if err := c.releaseAddress(ctx, p, a.name); err != nil {
			p.did.deletionWaitsFor = conditionFalse(infrav1.ReasonIPAddressClaimFailed, "IPAddressClaim "+a.name+
				" could not be deleted: "+err.Error()+"; correct the permissions or webhook that the error names (tried again)")
			return false, err
		}
	}
	return true, nil
}

// claimsUnreachable reports whether the VM got addresses from claims that this manager
// cannot reach, because their kinds are not served.
func claimsUnreachable(p *pass) bool {
	if len(p.seen.addresses) == 0 || p.object.Annotations[infrav1.IPAddressesAnnotation] == "" {
		return false
	}
	p.did.deletionWaitsFor = conditionFalse(infrav1.ReasonIPAMNotServed, "The IPAddressClaims of the VM cannot be "+
		"released: the API server did not serve "+ipamv1.GroupVersion.String()+" when the manager started; install these "+
		"kinds and restart it, or remove the annotation "+infrav1.IPAddressesAnnotation+" if the claims are gone")
	return true
}

// claimsInFlight returns for how long a request for a claim may still take effect; 0 if
// none can. Once the VM was asked for, all claims are there.
func (c *Controller) claimsInFlight(p *pass) time.Duration {
	if len(p.seen.addresses) == 0 || p.object.Annotations[infrav1.IPAddressesAnnotation] != "" {
		return 0
	}
	return c.Fence.InFlight()
}

// releaseAddress deletes one claim, or leaves it with the VM that uses its address.
func (c *Controller) releaseAddress(ctx context.Context, p *pass, name string) error {
	claim := &ipamv1.IPAddressClaim{}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, claim); err != nil {
		return ignoreNotFound("read IPAddressClaim", name, err)
	}
	if !claim.DeletionTimestamp.IsZero() || !ownsClaim(p.object, claim) {
		return nil
	}
	if p.did.vmRetained && !neverCreated(p.object) {
		return c.retainClaim(ctx, p, claim)
	}
	if err := c.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); err != nil {
		return ignoreNotFound("delete IPAddressClaim", name, err)
	}
	return nil
}

// retainClaim notes on a claim which VM it stays for: its machine will be gone.
func (c *Controller) retainClaim(ctx context.Context, p *pass, claim *ipamv1.IPAddressClaim) error {
	if _, done := claim.Annotations[infrav1.RetainedForVMAnnotation]; done {
		return nil
	}
	changed := claim.DeepCopy()
	machinev1.SetAnnotation(changed, infrav1.RetainedForVMAnnotation, p.object.Spec.ProviderID)
	err := c.Client.Patch(ctx, changed, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return ignoreNotFound("retain IPAddressClaim", claim.Name, err)
	}
	warn(p, eventClaimRetained, fmt.Sprintf("IPAddressClaim %s stays, because VM %q may use its address; delete it "+
		"when the VM is gone", claim.Name, p.object.Spec.ProviderID))
	return nil
}

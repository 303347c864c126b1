package inframachine

import (
	"context"
	"fmt"
	"time"

	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

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

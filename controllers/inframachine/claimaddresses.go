package inframachine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// releaseFinalizer is what IPAM providers keep a claim with until its address is free.
const releaseFinalizer = "ipam.cluster.x-k8s.io/ReleaseAddress"

// TestAddressesFromIPPools gives the VM of an MCMMachine an address from a pool, with the
// IPAM kinds of Cluster API's core and the permissions of the infrastructure provider. The test
// plays the IPAM provider.
func TestAddressesFromIPPools(t *testing.T) {
	t.Parallel()
	ctrl.SetLogger(klog.Background()) // of clients, which complain of its absence
	s := startWithout(t, stack.Options{ClusterAPI: true})
	s.Expect(ipamv1.AddToScheme(s.Client.Scheme())).To(Succeed())
	s.Expect(s.CreateClass(t.Context(), "small", "small")).To(Succeed())
	s.makeCluster("c")
	_, err := s.StartManager("--controllers=mcmcluster,mcmclass,mcmmachine", "--leader-elect=false",
		"--control-kubeconfig="+s.providerKubeconfig())
	s.Expect(err).NotTo(HaveOccurred())

	machine := fixture.CAPIMachine("m", "c")
	s.Expect(s.Client.Create(t.Context(), machine)).To(Succeed())
	s.Expect(s.Client.Create(t.Context(), fixture.BootSecret("m", "join: never"))).To(Succeed())
	s.invalidNetworks()
	o := fixture.MCMMachine("m", "c", "small", fromPool("10.9.0.53"))
	o.OwnerReferences[0].UID = machine.UID
	s.Expect(s.Client.Create(t.Context(), o)).To(Succeed())

	claim := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: "m-0-0"}}
	s.until("the claim is made", func(ctx context.Context) error {
		return s.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
	})
	s.Expect(claim.Spec.PoolRef.Kind).To(Equal("InClusterIPPool"))
	s.Expect(claim.OwnerReferences).To(BeEmpty(), "the garbage collector may not delete the claim while the VM runs")
	s.until("the machine says what it waits for", func(ctx context.Context) error {
		return s.claimed(ctx, o, infrav1.ReasonWaitingForIPAddresses)
	})
	s.fulfil(claim)
	s.until("the VM has the address", func(ctx context.Context) error { return s.hasAddress(ctx, "10.9.0.5/24") })
	s.until("the machine is provisioned", func(ctx context.Context) error {
		if err := s.claimed(ctx, o, infrav1.ReasonIPAddressesClaimed); err != nil {
			return err
		}
		if o.Status.Initialization.Provisioned == nil {
			return fmt.Errorf("not provisioned: %v", o.Status.Conditions)
		}
		return nil
	})
	err = s.Edit(t.Context(), o, func() { o.Spec.Network.Devices[0].AddressesFromPools[0].Name = "other" })
	s.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	s.Expect(err).To(MatchError(ContainSubstring("spec.network cannot be changed")))

	s.Expect(s.Client.Delete(t.Context(), o)).To(Succeed())
	s.until("the claim is deleted once the VM is gone", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.DeletionTimestamp.IsZero() {
			return errors.New("the claim is not being deleted")
		}
		return nil
	})
	live, err := s.Cloud.Live(t.Context(), "vm")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(live).To(BeEmpty(), "the address is released while the VM is there")
	s.Expect(s.Edit(t.Context(), claim, func() { claim.Finalizers = nil })).To(Succeed())
	s.until("the machine is gone", func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the machine is there: %w", err)
		}
		return nil
	})
}

// until waits until check returns no error.
func (s *suite) until(what string, check func(context.Context) error) {
	s.Helper()
	s.Eventually(func() error { return check(s.Context()) }).Should(Succeed(), what)
}

// makeCluster creates a Cluster whose infrastructure is provisioned.
func (s *suite) makeCluster(name string) {
	s.Helper()
	owner := fixture.Cluster(name)
	s.Expect(s.Client.Create(s.Context(), owner)).To(Succeed())
	before := owner.DeepCopy()
	owner.Status.Initialization.InfrastructureProvisioned = new(true)
	s.Expect(s.Client.Status().Patch(s.Context(), owner, client.MergeFrom(before))).To(Succeed())
	infra := fixture.MCMCluster(name)
	for i := range infra.OwnerReferences {
		infra.OwnerReferences[i].UID = owner.UID
	}
	s.Expect(s.Client.Create(s.Context(), infra)).To(Succeed())
}

// providerKubeconfig is that of a user with the permissions of the infrastructure provider.
func (s *suite) providerKubeconfig() string {
	s.Helper()
	const user = "infrastructure-provider"
	root, err := cluster.Root()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.Cluster.ApplyFile(s.Context(), filepath.Join(root, "config", "infrastructure", "role.yaml"))).To(Succeed())
	s.Expect(s.Client.Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "manager"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
	path, err := s.Cluster.KubeconfigFor(user)
	s.Expect(err).NotTo(HaveOccurred())
	return path
}

// fromPool lets an MCMMachine take its address from a pool.
func fromPool(nameservers ...string) func(*infrav1.MCMMachine) {
	return func(o *infrav1.MCMMachine) {
		o.Spec.Network = infrav1.MachineNetwork{Devices: []infrav1.NetworkDevice{{
			AddressesFromPools: []infrav1.IPPoolReference{{
				APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "workers",
			}},
			Nameservers: nameservers,
		}}}
	}
}

// invalidNetworks fails unless the API server refuses what is no network.
func (s *suite) invalidNetworks() {
	s.Helper()
	for want, edit := range map[string]func(*infrav1.MCMMachine){
		"has to be an IP address": fromPool("dns.example.org"),
		"no device has addressesFromPools": func(o *infrav1.MCMMachine) {
			o.Spec.Network.Devices = []infrav1.NetworkDevice{{}}
		},
		"have no effect without addressesFromPools": func(o *infrav1.MCMMachine) {
			fromPool()(o)
			o.Spec.Network.Devices = append(o.Spec.Network.Devices, infrav1.NetworkDevice{SearchDomains: []string{"a"}})
		},
		"should match": func(o *infrav1.MCMMachine) {
			fromPool()(o)
			o.Spec.Network.Devices[0].AddressesFromPools[0].Name = "No Name"
		},
	} {
		err := s.Client.Create(s.Context(), fixture.MCMMachine("invalid", "c", "small", edit))
		s.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", want, err)
		s.Expect(err).To(MatchError(ContainSubstring(want)))
	}
}

// fulfil gives a claim its address, as an IPAM provider does.
func (s *suite) fulfil(claim *ipamv1.IPAddressClaim) {
	s.Helper()
	s.Expect(s.Edit(s.Context(), claim, func() {
		claim.Finalizers = append(claim.Finalizers, releaseFinalizer)
	})).To(Succeed())
	owner := metav1.NewControllerRef(claim, ipamv1.GroupVersion.WithKind("IPAddressClaim"))
	s.Expect(s.Client.Create(s.Context(), &ipamv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: claim.Name, OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: ipamv1.IPAddressSpec{
			ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef,
			Address: "10.9.0.5", Prefix: new(int32(24)), Gateway: "10.9.0.1",
		},
	})).To(Succeed())
	before := claim.DeepCopy()
	claim.Status.AddressRef.Name = claim.Name
	s.Expect(s.Client.Status().Patch(s.Context(), claim, client.MergeFrom(before))).To(Succeed())
}

// claimed returns an error unless the condition of the claims has that reason.
func (s *suite) claimed(ctx context.Context, o *infrav1.MCMMachine, reason string) error {
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	c := meta.FindStatusCondition(o.Status.Conditions, infrav1.IPAddressesClaimedCondition)
	if c == nil || c.Reason != reason {
		return fmt.Errorf("want %s: %v", reason, o.Status.Conditions)
	}
	return nil
}

// hasAddress returns an error unless an interface has a static address.
func (s *suite) hasAddress(ctx context.Context, want string) error {
	nics, err := s.Cloud.Live(ctx, "nic")
	if err != nil {
		return err
	}
	for _, r := range nics {
		if r.NIC != nil && r.NIC.Static != nil && r.NIC.Static.Addresses[0].Address == want {
			return nil
		}
	}
	return fmt.Errorf("no interface has %s: %+v", want, nics)
}

package capi

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// moves reports whether clusterctl takes an object along that no Cluster owns.
func moves(w *env, o client.Object) bool {
	w.Helper()
	_, marked := read(w, o).GetLabels()[clusterctlv1.ClusterctlMoveLabel]
	return marked
}

// Classes and Secrets belong to no Cluster, so that clusterctl does not find them
// through one; a label takes them along.
func TestMoveTakesAlongWhatMachinesAreMadeFrom(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	w.create(theTemplate(), theControlPlane(), theKubeconfig("{token: s3cret}"))
	w.run(classController, "small")
	secrets := w.reconcilers[classController][1]
	if _, err := secrets.Reconcile(t.Context(), reconcile.Request{NamespacedName: key("small")}); err != nil {
		t.Fatal(err)
	}
	w.run(configController, "m")
	w.run(controlPlaneController, "c1")
	for what, o := range map[string]client.Object{
		"the class": theClass("small"), "its Secret": theCredentials(), "user data": theUserData(),
		"the kubeconfig that was given": theKubeconfig(""),
	} {
		if !moves(w, o) || len(o.GetOwnerReferences()) != 0 {
			t.Errorf("%s: labels %v, owners %v", what, o.GetLabels(), o.GetOwnerReferences())
		}
	}
}

// Native machines do not move, so neither does what they need.
func TestMoveIsBlockedByNativeUsersOfAClass(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theTemplate())
	change(w, theClass("small"), func(c *machinev1.MachineClass) { c.Finalizers = []string{machinev1.Finalizer} })
	w.run(classController, "small")
	if read(w, theClass("small")).Annotations[clusterctlv1.BlockMoveAnnotation] == "" {
		t.Error("a class that native machines use would be taken away from them")
	}
	change(w, theClass("small"), func(c *machinev1.MachineClass) { c.Finalizers = nil })
	w.run(classController, "small")
	if _, blocked := read(w, theClass("small")).Annotations[clusterctlv1.BlockMoveAnnotation]; blocked {
		t.Error("nothing blocks it any more")
	}
}

// Only this object knows of a VM that is just being asked for.
func TestMoveIsBlockedWhileAVMIsBeingMade(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Mode: sim.FaultLost, Count: 1})
	w.machine()
	_, _ = w.try(machineController, "m")
	if w.mcmMachine().Annotations[clusterctlv1.BlockMoveAnnotation] == "" {
		t.Error("the machine may be moved while a call is on its way")
	}
	w.provision()
	if _, blocked := w.mcmMachine().Annotations[clusterctlv1.BlockMoveAnnotation]; blocked {
		t.Error("a complete machine may not be moved")
	}
}

// clusterctl writes spec and metadata, under another UID, and no status.
func TestMoveRebuildsTheStatus(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	before := w.running()
	cluster := read(w, theMCMCluster())
	moved, movedCluster := before.DeepCopy(), cluster.DeepCopy()
	moved.ResourceVersion, moved.UID, moved.Status = "", "new", infrav1.MCMMachineStatus{}
	movedCluster.ResourceVersion, movedCluster.UID, movedCluster.Status = "", "new-cluster", infrav1.MCMClusterStatus{}
	for _, o := range []client.Object{w.mcmMachine(), cluster} {
		change(w, o, func(o client.Object) { o.SetFinalizers(nil) })
		w.delete(o)
	}
	w.create(movedCluster, moved)
	w.restart()
	w.run(clusterController, "c1")
	w.run(machineController, "m")
	after := w.mcmMachine()
	if !provisioned(after) || after.Spec.ProviderID != before.Spec.ProviderID || len(after.Status.Addresses) == 0 ||
		after.Status.FailureDomain != before.Status.FailureDomain {
		t.Errorf("status %+v", after.Status)
	}
	for name, ids := range map[string][2]string{
		"MCMMachine": {before.Annotations[machinev1.OwnerIDAnnotation], after.Annotations[machinev1.OwnerIDAnnotation]},
		"MCMCluster": {
			cluster.Annotations[machinev1.OwnerIDAnnotation],
			read(w, theMCMCluster()).Annotations[machinev1.OwnerIDAnnotation],
		},
	} {
		if ids[0] == "" || ids[0] != ids[1] {
			t.Errorf("%s: the id that resources in the cloud carry was %q and is %q", name, ids[0], ids[1])
		}
	}
	if made, live := w.vms(); made != 1 || live != 1 {
		t.Errorf("%d VMs made, %d live", made, live)
	}
	w.delete(after)
	w.settle(w.gone(after))
	if _, live := w.vms(); live != 0 {
		t.Error("the VM does not go with the object that was moved")
	}
}

// The intent is written before the first call, so that whoever comes next knows.
func TestMoveAndCrashFindTheVM(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.failing = func(o client.Object) error {
		if m, ok := o.(*infrav1.MCMMachine); ok && m.Spec.ProviderID != "" {
			return errors.New("the API server is gone")
		}
		return nil
	}
	w.machine()
	for range 3 {
		_, _ = w.try(machineController, "m")
		w.restart()
	}
	w.failing = nil
	w.provision()
	if made, live := w.vms(); made != 1 || live != 1 {
		t.Errorf("%d VMs made, %d live", made, live)
	}
}

// Objects that others own are linked to the Cluster, those of core by core.
func TestMoveOwnerReferencesChain(t *testing.T) {
	t.Parallel()
	w := newConfig(t)
	w.create(theControlPlane(), theKubeconfig("{token: s3cret}"))
	w.run(configController, "m")
	w.run(controlPlaneController, "c1")
	for kind, s := range map[string]*corev1.Secret{
		"MCMConfig":               dataSecret(),
		"MCMExternalControlPlane": kubeconfigSecret(),
	} {
		refs := read(w, s).OwnerReferences
		if len(refs) != 1 || refs[0].Kind != kind {
			t.Errorf("Secret %s has owners %v", s.Name, refs)
		}
	}
	var secrets corev1.SecretList
	if err := w.client.List(t.Context(), &secrets); err != nil {
		t.Fatal(err)
	}
	known := []string{"m", "c1-kubeconfig", "given", "user-data", "small"}
	for _, s := range secrets.Items {
		if !slices.Contains(known, s.Name) {
			t.Errorf("there is a Secret %s", s.Name)
		}
	}
}

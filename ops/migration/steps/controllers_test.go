package steps

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// playNative is a pass of the native API over one object.
func (w *env) playNative(o client.Object) {
	if hold := o.GetAnnotations()[machinev1.MigrationHoldAnnotation]; hold != "" {
		w.patchObject(o, func(o client.Object) {
			all := o.GetAnnotations()
			all[machinev1.MigrationHeldAnnotation] = hold
			o.SetAnnotations(all)
		})
		return
	}
	switch o := o.(type) {
	case *machinev1.MachineDeployment:
		w.playNativeDeployment(o)
	case *machinev1.MachineSet:
		w.playNativeSet(o)
	case *machinev1.Machine:
		if !o.DeletionTimestamp.IsZero() {
			w.deleteVM(o.Name)
			w.patchObject(o, func(o client.Object) { o.SetFinalizers(nil) })
		}
	}
}

func (w *env) playNativeDeployment(d *machinev1.MachineDeployment) {
	if !d.DeletionTimestamp.IsZero() {
		return
	}
	sets := get(w, &machinev1.MachineSetList{}).Items
	same := func(s machinev1.MachineSet) bool {
		return machinev1.SameTemplate(&s.Spec.Template, &d.Spec.Template)
	}
	if !slices.ContainsFunc(sets, same) {
		w.t.Errorf("the native API rolls: no set has the template %+v", d.Spec.Template)
	}
	for i := range sets {
		s := &sets[i]
		if metav1.GetControllerOf(s) == nil {
			w.t.Errorf("%s has no controller", objects.Title(s))
		}
		if same(*s) && s.Spec.Replicas != d.Spec.Replicas && s.Annotations[machinev1.MigrationHoldAnnotation] == "" {
			w.patchObject(s, func(o client.Object) { o.(*machinev1.MachineSet).Spec.Replicas = d.Spec.Replicas })
		}
	}
}

func (w *env) playNativeSet(s *machinev1.MachineSet) {
	var mine []machinev1.Machine
	for _, m := range get(w, &machinev1.MachineList{}).Items {
		if metav1.IsControlledBy(&m, s) && m.DeletionTimestamp.IsZero() {
			mine = append(mine, m)
		}
	}
	for len(mine) > int(s.Spec.Replicas) && s.DeletionTimestamp.IsZero() {
		w.must(w.api.Delete(w.t.Context(), &mine[0]))
		mine = mine[1:]
	}
	for i := len(mine); i < int(s.Spec.Replicas) && s.DeletionTimestamp.IsZero(); i++ {
		w.serial++
		name := fmt.Sprintf("%s-n%d", s.Name, w.serial)
		m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: objects.Merge(s.Spec.Template.Labels,
				map[string]string{machinev1.NodeLabel: name}),
			Finalizers: []string{machinev1.Finalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s,
				machinev1.GroupVersion.WithKind(machinev1.MachineSetKind))},
		}}
		m.Spec.Class, m.Spec.ProviderID = s.Spec.Template.Spec.Class, "sim://"+name
		w.must(w.api.Create(w.t.Context(), m))
		w.patchStatus(m, func(o client.Object) {
			o.(*machinev1.Machine).Status.CurrentStatus.Phase = machinev1.MachineRunning
		})
		w.makeVM(name)
	}
}

// playClusterAPI is a pass of Cluster API's core, or of this provider, over one object.
func (w *env) playClusterAPI(o client.Object) {
	switch o := o.(type) {
	case *clusterv1.MachineDeployment:
		w.patchObject(o, func(o client.Object) { addFinalizer(o, clusterv1.MachineDeploymentFinalizer) })
	case *clusterv1.MachineSet:
		w.patchObject(o, func(o client.Object) { addFinalizer(o, clusterv1.MachineSetFinalizer) })
	case *clusterv1.Machine:
		w.patchObject(o, func(o client.Object) { addFinalizer(o, clusterv1.MachineFinalizer) })
	}
	key := client.ObjectKeyFromObject(o)
	if err := w.api.Get(w.t.Context(), key, o); err != nil {
		return
	}
	_, infra := o.(*infrav1.MCMMachine)
	if _, moves := o.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; infra && moves {
		return // this provider leaves what clusterctl deletes to clusterctl
	}
	if w.setPaused(o) {
		return
	}
	if err := w.api.Get(w.t.Context(), key, o); err != nil {
		return
	}
	switch o := o.(type) {
	case *clusterv1.MachineDeployment:
		w.playDeployment(o)
	case *clusterv1.MachineSet:
		w.playSet(o)
	case *clusterv1.Machine:
		w.playMachine(o)
	case *infrav1.MCMMachine:
		w.playMCMMachine(o)
	}
}

func (w *env) playDeployment(d *clusterv1.MachineDeployment) {
	sets := get(w, &clusterv1.MachineSetList{}).Items
	same := func(s clusterv1.MachineSet) bool {
		return migration.SameClusterAPITemplate(&s.Spec.Template.Spec, &d.Spec.Template.Spec)
	}
	if !slices.ContainsFunc(sets, same) {
		w.t.Errorf("Cluster API rolls: no set has the template %+v", d.Spec.Template.Spec)
	}
	for i := range sets {
		s := &sets[i]
		if _, rests := s.Annotations[clusterv1.PausedAnnotation]; same(*s) && !rests &&
			!ptr.Equal(s.Spec.Replicas, d.Spec.Replicas) {
			w.patchObject(s, func(o client.Object) { o.(*clusterv1.MachineSet).Spec.Replicas = d.Spec.Replicas })
		}
	}
	w.patchStatus(d, func(o client.Object) { o.(*clusterv1.MachineDeployment).Status.ObservedGeneration = d.Generation })
}

func (w *env) playSet(s *clusterv1.MachineSet) {
	var mine []clusterv1.Machine
	for _, m := range get(w, &clusterv1.MachineList{}).Items {
		if metav1.IsControlledBy(&m, s) && m.DeletionTimestamp.IsZero() {
			mine = append(mine, m)
		}
	}
	for len(mine) > int(ptr.Deref(s.Spec.Replicas, 0)) {
		w.must(w.api.Delete(w.t.Context(), &mine[0]))
		mine = mine[1:]
	}
	for i := len(mine); i < int(ptr.Deref(s.Spec.Replicas, 0)); i++ {
		w.makeMachine(s)
	}
	w.patchStatus(s, func(o client.Object) { o.(*clusterv1.MachineSet).Status.ObservedGeneration = s.Generation })
}

// makeMachine makes a Machine as a MachineSet does, with its VM.
func (w *env) makeMachine(s *clusterv1.MachineSet) {
	w.serial++
	name := fmt.Sprintf("%s-c%d", s.Name, w.serial)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, Labels: objects.Merge(s.Spec.Template.Labels,
			map[string]string{clusterv1.MachineSetNameLabel: s.Name}),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s, clusterv1.GroupVersion.WithKind("MachineSet"))},
	}}
	m.Spec = *s.Spec.Template.Spec.DeepCopy()
	m.Spec.ProviderID = "sim:///" + name
	template := objects.Find(get(w, &infrav1.MCMMachineTemplateList{}).Items, m.Spec.InfrastructureRef.Name)
	m.Spec.InfrastructureRef.Kind, m.Spec.InfrastructureRef.Name = "MCMMachine", name
	w.must(w.api.Create(w.t.Context(), m))
	infra := &infrav1.MCMMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, Labels: m.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m, clusterv1.GroupVersion.WithKind("Machine"))},
	}}
	infra.Spec = template.Spec.Template.Spec
	infra.Spec.ProviderID = m.Spec.ProviderID
	w.must(w.api.Create(w.t.Context(), infra))
	w.makeVM(name)
}

func (w *env) playMachine(m *clusterv1.Machine) {
	if m.DeletionTimestamp.IsZero() {
		if slices.Contains(w.vms(), m.Name) {
			w.patchStatus(m, func(o client.Object) { o.(*clusterv1.Machine).Status.NodeRef.Name = m.Name })
		}
		return
	}
	infra := objects.Find(get(w, &infrav1.MCMMachineList{}).Items, m.Spec.InfrastructureRef.Name)
	if infra == nil {
		w.patchObject(m, func(o client.Object) { o.SetFinalizers(nil) })
		return
	}
	w.must(w.api.Delete(w.t.Context(), infra))
}

func (w *env) playMCMMachine(o *infrav1.MCMMachine) {
	if !o.DeletionTimestamp.IsZero() {
		if o.Annotations[machinev1.RetainVMAnnotation] != "true" {
			w.deleteVM(o.Name)
		}
		w.patchObject(o, func(o client.Object) { o.SetFinalizers(nil) })
		return
	}
	w.patchObject(o, func(o client.Object) { addFinalizer(o, machinev1.MCMMachineFinalizer) })
	if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		return
	}
	w.patchStatus(o, func(x client.Object) {
		x.(*infrav1.MCMMachine).Status.Initialization.Provisioned = new(slices.Contains(w.vms(), o.Name))
	})
}

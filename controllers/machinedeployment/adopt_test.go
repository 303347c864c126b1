package machinedeployment

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestAdoption(t *testing.T) {
	t.Parallel()
	orphan := func(name, pool string) *machinev1.MachineSet {
		set := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "uid-" + "x", Labels: map[string]string{"pool": pool},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "uid-other"}},
		}}
		set.Spec = machinev1.MachineSetSpec{
			Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}},
			Template: deployment(0).Spec.Template,
		}
		return set
	}
	env := newEnv(t, deployment(2), orphan("mine", "a"), orphan("theirs", "b"))
	env.playSets()
	before := names(env.live())
	env.until("the set has the hash", func() bool {
		set := env.sets()[0]
		return set.Spec.Selector.MatchLabels[machinev1.TemplateHashLabel] != "" &&
			env.deployment().Status.AvailableReplicas == 2
	})
	mine, theirs := &machinev1.MachineSet{}, &machinev1.MachineSet{}
	for name, set := range map[string]*machinev1.MachineSet{"mine": mine, "theirs": theirs} {
		if err := env.Raw.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
			t.Fatal(err)
		}
	}
	if !metav1.IsControlledBy(mine, env.deployment()) || len(mine.OwnerReferences) != 2 ||
		metav1.GetControllerOf(theirs) != nil {
		t.Errorf("owners %v and %v", mine.OwnerReferences, theirs.OwnerReferences)
	}
	hash := mine.Labels[machinev1.TemplateHashLabel]
	for _, m := range env.members(mine) {
		if hash == "" || m.Labels[machinev1.TemplateHashLabel] != hash {
			t.Errorf("machine %s has labels %v", m.Name, m.Labels)
		}
	}
	if n := len(env.sets()); n != 2 {
		t.Errorf("%d sets: the adopted one has the template", n)
	}
	for _, name := range before {
		if env.node(name) == nil {
			t.Errorf("machine %s was lost", name)
		}
	}
}
